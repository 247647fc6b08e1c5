#: share
#: program abi
# Files of a folder of the host, as system calls see them.
mkdir -p /mnt
mount -t 9p -o trans=virtio,version=9p2000.L share0 /mnt
cd /mnt
abi share
ls -A
