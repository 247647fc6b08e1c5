#: slow
#: disk 512
#: memory 256M
# More than the memory holds, written, read and mapped; nothing is killed for it.
dd if=/dev/urandom of=/tmp/some bs=1M count=8 2>/dev/null
sum=$(md5sum < /tmp/some)
i=0
while [ $i -lt 40 ]; do
    dd if=/tmp/some of=/dev/vda bs=1M seek=$((i * 8)) conv=notrunc 2>/dev/null || echo failed
    i=$((i + 1))
done
i=0
while [ $i -lt 40 ]; do
    [ "$(dd if=/dev/vda bs=1M skip=$((i * 8)) count=8 2>/dev/null | md5sum)" = "$sum" ] || echo differs $i
    i=$((i + 1))
done
# A writer that is killed in its middle leaves the disk usable.
head -c 65536 /dev/zero >/tmp/zeroes
dd if=/dev/zero of=/dev/vda bs=64k 2>/dev/null &
until dd if=/dev/vda bs=64k skip=1024 count=1 2>/dev/null | cmp -s - /tmp/zeroes; do :; done
kill -9 $!
wait $!
echo killed $?
dd if=/tmp/some of=/dev/vda bs=1M conv=notrunc,fsync 2>/dev/null
echo 3 > /proc/sys/vm/drop_caches
[ "$(dd if=/dev/vda bs=1M count=8 2>/dev/null | md5sum)" = "$sum" ] && echo same
