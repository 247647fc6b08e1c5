#: program abi
#: package e2fsprogs
#: disk 32
#: minutes 2
# Calls on ext4 at their edges, with blocks that are smaller than a page.
mkfs.ext4 -q -b 1024 -E lazy_itable_init=0 /dev/vda 2>/dev/null; echo "mkfs $?"
mkdir -p /tmp/m; mount -t ext4 /dev/vda /tmp/m; echo "mount $?"
cd /tmp/m; abi ext4; cd /
umount /tmp/m; e2fsck -fn /dev/vda >/dev/null 2>&1; echo "checked: $?"
