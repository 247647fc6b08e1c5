#: share
# A folder of the host, by 9P: what its files do, and what is refused.
mkdir -p /mnt
say() { "$@" 2>&1 | sed 's/^[a-z]*: //'; }

echo == mount
mount -t 9p -o trans=virtio none /mnt 2>/dev/null; echo $?
mount -t 9p -o trans=virtio,version=9p2000.L,msize=1 share0 /mnt 2>/dev/null; echo $?
mount -t 9p -o trans=virtio,version=9p2000.L,access=any share0 /mnt; echo $?
mount -t 9p -o trans=virtio,version=9p2000.L share0 /mnt 2>/dev/null; echo $?
grep ' /mnt ' /proc/mounts
cd /mnt

echo == files
echo one >a
echo two >>a
cat a
stat -c '%n %s %F %a %h' a
: >a
stat -c '%s' a
dd if=/dev/zero of=big bs=1000 count=300 2>/dev/null
echo end >>big
stat -c '%s' big
tail -c 4 big
printf abc | dd of=big bs=1 seek=299998 conv=notrunc 2>/dev/null
tail -c 6 big
truncate -s 5 big
stat -c '%s' big
truncate -s 100000 big
md5sum <big
rm big

echo == names
mkdir d
mkdir d 2>/dev/null; echo $?
say cat none
say rmdir none
ln -s a l
readlink l
cat l >/dev/null; echo $?
ln a d/hard
stat -c '%h' a
mv a d/b
ls d
say mv d d/inside
say rmdir d
rm d/hard
stat -c '%h' d/b
mv d/b .
mkdir e
mv d e
ls -F e
mv -T e/d e2
ls
rmdir e e2
: >"$(printf 'new\nline, colon:')"
ls | wc -l
rm new*

echo == attributes
chmod 640 b
stat -c '%a' b
touch -d '2001-02-03 04:05:06' b
stat -c '%y' b
mkdir -m 1777 sticky
stat -c '%a' sticky
(umask 077; : >private)
stat -c '%a' private
(umask 0; echo x >sealed; chmod 400 sealed; cat sealed)
mkfifo pipe
(echo through >pipe &)
cat pipe
stat -c '%F' pipe
rm -r sticky private sealed pipe

echo == open and unlinked
exec 3<>b 4<b
rm b
echo kept >&3
cat <&4
ls
exec 3>&- 4<&-

echo == many
mkdir many
i=0
while [ $i -lt 500 ]; do : >many/f$i; i=$((i + 1)); done
ls many | wc -l
ls -a many | sort | head -3
find many -name 'f4?' | sort | md5sum
rm -r many

echo == programs
cp /bin/busybox busybox
./busybox echo ran
cp busybox copy && cmp busybox copy && echo same
./busybox sleep 100 &
until [ "$(readlink /proc/$!/exe)" = /mnt/busybox ]; do sleep 0.1; done
(echo x >busybox) 2>/dev/null; echo $?
kill $!
wait $! 2>/dev/null
rm busybox copy

echo == directories that move
mkdir -p p/q
cd p/q
mv /mnt/p /mnt/r
pwd -P
cd /mnt
rm -r r

echo == read-only
mount -o remount,ro /mnt
say touch x
mount -o remount,rw /mnt
touch x && rm x
cd /
umount /mnt; echo $?
mount -t 9p -o trans=virtio share0 /mnt; echo $?
ls -A /mnt

echo == killed while they wait
dd if=/dev/zero of=/mnt/big bs=1M count=8 2>/dev/null
i=0
while [ $i -lt 40 ]; do
    cat /mnt/big >/mnt/copy &
    usleep $((i * 700))
    kill -9 $!
    wait $! 2>/dev/null
    i=$((i + 1))
done
rm -f /mnt/copy
cmp -n 8388608 /mnt/big /dev/zero && stat -c '%s' /mnt/big
rm /mnt/big

echo == open while it is unmounted
echo kept >/mnt/f
exec 3</mnt/f
umount -l /mnt
mount -t 9p -o trans=virtio share0 /mnt 2>/dev/null; echo $?
cat <&3
exec 3<&-
mount -t 9p -o trans=virtio share0 /mnt; echo $?
rm /mnt/f
umount /mnt
