#: program abi
mount -t tmpfs none /tmp
cd /tmp
abi hostile chains
