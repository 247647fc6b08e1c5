#: program abi
mkdir /work
mount -t tmpfs none /work
cd /work
abi hostile mounts
