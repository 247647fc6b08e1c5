#: disk 64
# A table of the PC, by hand: two primary partitions, of Linux.
entry() { # kind, first sector, sectors: both below 2^16
    printf "\\0\\0\\0\\0\\$(printf %o "$1")\\0\\0\\0"
    for n in "$2" "$3"; do
        printf "\\$(printf %o $((n % 256)))\\$(printf %o $((n / 256)))\\0\\0"
    done
}
{ entry 131 2048 16384; entry 131 20480 8192; } |
    dd of=/dev/vda bs=1 seek=446 conv=notrunc 2>/dev/null
printf '\125\252' | dd of=/dev/vda bs=1 seek=510 conv=notrunc 2>/dev/null
ls /dev/vda*
blockdev --rereadpt /dev/vda; echo $?
ls /dev/vda*
cat /proc/partitions
for file in /sys/block/vda/size /sys/block/vda/ro /sys/block/vda/vda?/size \
    /sys/block/vda/vda?/start /sys/block/vda/vda?/partition /sys/class/block/vda2/dev \
    /sys/block/vda/queue/logical_block_size /sys/block/vda/serial; do
    echo "$file: $(cat $file)"
done
echo first > /dev/vda1
echo second > /dev/vda2
sync
head -c 6 /dev/vda1
dd if=/dev/vda bs=512 skip=20480 count=1 2>/dev/null | head -c 7
blockdev --getsz /dev/vda2
exec 3</dev/vda1
blockdev --rereadpt /dev/vda 2>/dev/null; echo "in use: $?"
exec 3<&-
dd if=/dev/zero of=/dev/vda bs=512 count=1 conv=notrunc 2>/dev/null
blockdev --rereadpt /dev/vda; echo $?
ls /dev/vda*
