#: program abi
#: package erofs-utils coreutils
#: disk 32
#: minutes 3
# EROFS with files that LZ4 compressed, in clusters of one block and of many.
stat() { /usr/bin/stat "$@"; }
mkdir -p tree/folder m; cd tree
cp /bin/busybox busybox; dd if=/dev/zero of=zeroes bs=1M count=3 2>/dev/null
i=0; while [ $i -lt 9000 ]; do echo "line $i of some"; i=$((i + 1)); done >lines
gzip -c <lines | tail -c +11 >packed; cat lines packed zeroes packed lines >all; head -c 5000 lines >short; head -c 10 lines >folder/ten
ln -s lines link; cd ..
for options in "-z lz4" "-z lz4hc -C 65536" "-z lz4 -b 1024 --max-extent-bytes=30000"; do
    echo "== $options"
    mkfs.erofs --quiet -T 1 -U 01234567-89ab-4cde-8f01-23456789abcd $options /dev/vda tree
    mount -t erofs /dev/vda m; echo "mount $?"
    stat -c '%n %s %b' m/[!b]* m/folder/ten
    (cd tree; for name in * folder/ten; do [ -f $name ] && cmp $name ../m/$name; done)
    echo 3 >/proc/sys/vm/drop_caches
    for at in 90000 41 159000 170000 1700000 3480000 3; do
        dd if=m/all bs=1 skip=$at count=3000 2>/dev/null | md5sum
    done
    tail -c 100 m/all | md5sum; m/busybox echo "it runs"
    /usr/bin/dd if=m/lines of=/dev/null bs=4096 iflag=direct 2>/dev/null; echo "direct $?"
    umount m; echo "umount $?"
done
