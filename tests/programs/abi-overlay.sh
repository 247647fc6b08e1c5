#: program abi
#: module fs/overlayfs/overlay
mkdir work
mount -t tmpfs none work
cd work
abi overlay
