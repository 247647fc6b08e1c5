#: program abi
#: package erofs-utils attr
#: disk 4
#: minutes 6
# Images of EROFS with changed bytes, mounted and read; then the sound one is as it was.
for name in setfattr getfattr; do eval "$name() { /usr/bin/$name \"\$@\"; }"; done
mkdir -p m t/folder/in; cd t
echo text >file; ln -s file short; ln file folder/in/same; ln -s "$(printf '%0200d' 7)" long
mkfifo pipe; setfattr -n user.one -v 1 file; setfattr -n user.two -v 22 file long 2>/dev/null
i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i + 1)); done >large
truncate -s 100k holes; echo x | dd of=holes bs=1k seek=50 conv=notrunc 2>/dev/null
i=0; while [ $i -lt 150 ]; do : >"folder/a name that takes some room $i"; i=$((i + 1)); done; cd ..
for options in "-b 1024" "-b 4096 --chunksize=4096"; do
    # Without a checksum what is changed is read.
    mkfs.erofs --quiet -x 1 -T 1 -U 01234567-89ab-4cde-8f01-23456789abcd $options image t; echo "mkfs $?"
    printf '\0' | dd of=image bs=1 seek=1032 conv=notrunc 2>/dev/null
    cat image >/dev/vda; sync
    abi damaged 5 erofs
    mount -t erofs /dev/vda m; echo "mount $?"
    find m | sort | md5sum; cat m/file m/large m/holes | md5sum; getfattr -d m/file
    umount m
done
# Directories with a second name: one that is in itself, and one of a directory elsewhere.
mkdir -p w/a/d/x w/b/d/x w/c/loop w/many; : >w/a/ina; : >w/b/inb
i=0; while [ $i -lt 300 ]; do : >"w/many/a name that takes some room $i"; i=$((i + 1)); done
mkfs.erofs --quiet -T 1 -U 01234567-89ab-4cde-8f01-23456789abcd image w; cat image >/dev/vda
# The third entry, behind an inode of 32 bytes.
entry() { echo $(($(stat -c %i m/$1) * 32 + 32 + 2 * 12)); }
mount -t erofs /dev/vda m; a=$(entry a) b=$(entry b) c=$(entry c)
inode=$(stat -c %i m/many); umount m
copy() { dd if=image of=image bs=1 skip=$1 seek=$2 count=8 conv=notrunc 2>/dev/null; }
copy $a $b; copy $((c - 24)) $c; printf '\0' | dd of=image bs=1 seek=1032 conv=notrunc 2>/dev/null
cat image >/dev/vda; mount -t erofs /dev/vda m; echo "mount $?"
exec 5<m/a/d/x; ls m/c/loop 2>&1
(cd m/b; cd -P d/x 2>/dev/null && cd -P ../..; echo *)
exec 5<&-; umount m; echo "umount $?"
# A directory whose second block is damaged: what is in the first is told.
block=$(od -An -tu4 -j$((inode * 32 + 16)) -N4 image)
printf '\377\377' | dd of=image bs=1 seek=$(((block + 1) * 4096 + 8)) conv=notrunc 2>/dev/null
cat image >/dev/vda; mount -t erofs /dev/vda m; set -- m/many/*; echo $#; umount m
