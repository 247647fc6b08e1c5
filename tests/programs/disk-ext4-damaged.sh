#: program abi
#: package e2fsprogs
#: disk 4
#: minutes 4
# Images of ext4 with changed bytes, mounted and used; then the sound one is as it was.
mkfs.ext4 -q -b 1024 -O ^metadata_csum -J size=1 \
    -E lazy_itable_init=0,hash_seed=01234567-89ab-4cde-8f01-23456789abcd /dev/vda; echo "mkfs $?"
mkdir m; mount -t ext4 /dev/vda m; echo "mount $?"
mkdir m/folder m/folder/in; echo text >m/file; ln -s file m/short; ln m/file m/folder/in/same
ln -s "$(printf '%0200d' 7)" m/long; mkfifo m/pipe
dd if=/dev/zero bs=1k count=300 2>/dev/null | tr '\0' x >m/large
for at in 0 100 200 300 400 500; do echo x | dd of=m/holes bs=1k seek=$at conv=notrunc 2>/dev/null; done
i=0; while [ $i -lt 150 ]; do : >"m/folder/a name that takes some room $i"; i=$((i + 1)); done
umount m; echo "umount $?"
abi damaged
e2fsck -fn /dev/vda >/dev/null 2>&1; echo "checked: $?"
