#: program abi
#: package e2fsprogs
#: disk 32
#: minutes 2
# Calls on ext4 at their edges, with blocks that are smaller than a page.
mkdir -p /tmp/m
mkfs.ext4 -q -F -b 65536 /dev/vda >/dev/null 2>&1; echo "mkfs $?"
mount -t ext4 /dev/vda /tmp/m 2>/dev/null; echo "blocks larger than a page: $?"
mkfs.ext4 -q -F -b 1024 -E lazy_itable_init=0 /dev/vda 2>/dev/null; echo "mkfs $?"
mount -t ext4 /dev/vda /tmp/m; echo "mount $?"
cd /tmp/m; abi ext4; cd /
umount /tmp/m; e2fsck -fn /dev/vda >/dev/null 2>&1; echo "checked: $?"
