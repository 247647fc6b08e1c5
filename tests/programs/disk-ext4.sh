#: program abi
#: package e2fsprogs attr coreutils util-linux
#: disk 64
#: minutes 2
# ext4 on a disk: made, mounted, used, and found clean.
printf '[defaults]\n[fs_types]\next4 = {\n features = has_journal\n}\n' >mke2fs.conf
export MKE2FS_CONFIG=$PWD/mke2fs.conf
for name in ls mv touch fallocate getfattr setfattr; do eval "$name() { /usr/bin/$name \"\$@\"; }"; done
check() {
    e2fsck -fn /dev/vda >$log 2>&1
    echo "checked: $?"
    grep -v "^Pass\|^e2fsck\|^Warning\|files (" $log
}
log=$PWD/check.log
show() { grep ' /tmp/m ' /proc/mounts | tr '\n' ' '; echo; }
mkdir -p /tmp/m
m=/tmp/m
grep -w ext4 /proc/filesystems
mount -t ext4 /dev/vda $m 2>/dev/null; echo "nothing there: $?"
mkfs.ext4 -q -b 4096 -I 256 -N 4096 \
    -E lazy_itable_init=0,hash_seed=01234567-89ab-4cde-8f01-23456789abcd \
    -O metadata_csum,64bit,extent,dir_index,filetype,sparse_super,large_file,huge_file,extra_isize \
    /dev/vda; echo "mkfs $?"
mount -t ext4 -o nonsense /dev/vda $m 2>/dev/null; echo "option: $?"
mount -t ext4 /dev/vda $m; echo "mount $?"
show
stat -f -c '%T %s %S %c %d %l' $m
stat -c '%n %F %a %u %g %h %s' $m $m/lost+found

echo "== names"
cd $m
mkdir d; echo one >d/one; ln d/one two; ln -s d/one three; mkfifo pipe; mknod null c 1 3
echo thrown >null; cat two three
stat -c '%n %F %a %h %s %t,%T' * d/one | grep -v lost
mv two d/two; mv d e; ls e; cat three 2>/dev/null || echo dangling
mv e/one three; cat three; stat -c %h three
mkdir e/f e/f/g; rmdir e 2>/dev/null; echo "not empty $?"
mv e e/f/h 2>/dev/null; echo "into itself $?"
stat -c '%n %h' e e/f; mv e/f f; stat -c '%n %h' e f; rm -r f
mv -T --exchange e three; stat -c '%n %F' e three; mv -T --exchange e three
mv three e/two; ls e
ln -s "$(printf '%0200d' 7)" long; readlink long | wc -c; stat -c %s long
touch "$(printf '%0256d' 1)" 2>/dev/null; echo "long name $?"
touch "$(printf '%0255d' 1)" && rm 0*1
cd e; rmdir ../e 2>/dev/null; echo "full $?"; rm two; rmdir ../e; ls -a; touch x 2>/dev/null
echo "gone $?"; cd $m; ls

echo "== data"
i=0
while [ $i -lt 2000 ]; do echo "line $i"; i=$((i + 1)); done >lines
md5sum <lines
stat -c '%s %b' lines; sync; stat -c '%s %b' lines
dd if=lines of=sparse bs=1k seek=5000 conv=notrunc 2>/dev/null; sync; stat -c '%s %b' sparse
md5sum <sparse
truncate -s 5000 lines; tail -c 20 lines; truncate -s 6000 lines; tail -c 1500 lines | md5sum
truncate -s 0 lines; sync; stat -c '%s %b' lines
fallocate -l 100k lines && sync && stat -c '%s %b' lines
fallocate -n -l 200k lines && sync && stat -c '%s %b' lines
echo data | dd of=lines bs=1 seek=50000 conv=notrunc 2>/dev/null
fallocate -p -o 4096 -l 40960 lines && sync && stat -c '%s %b' lines
md5sum <lines
echo 3 >/proc/sys/vm/drop_caches; md5sum <lines; md5sum <sparse
exec 3>unlinked 4<unlinked; echo still >&3; rm unlinked; cat <&4; exec 3>&- 4<&-
echo a >app; echo b >>app; cat app

echo "== attributes"
touch f; chmod 4751 f; chown 5:6 f; stat -c '%a %u %g' f
chmod 4751 f; touch -d '2039-01-02 03:04:05.123456789 UTC' f; stat -c '%a %.9Y' f
touch -a -d '1960-01-01 UTC' f; stat -c '%X %Y' f
setfattr -n user.one -v 1 f; setfattr -n trusted.two -v 22 f; setfattr -n security.three -v x f
getfattr -d -m - f
setfattr -x user.one f; getfattr -n user.one f 2>/dev/null; echo "no attribute $?"
head -c 3000 /dev/zero | tr '\0' v >value; setfattr -n user.big -v "$(cat value)" f
getfattr --only-values -n user.big f | md5sum
setfattr -n other.one -v 1 f 2>/dev/null; echo "no such family $?"
mkdir -m 2775 set; chown 0:7 set; mkdir set/in; touch set/file; stat -c '%a %g' set/in set/file
chmod 700 set; mkdir open; chmod 1777 open; echo x >open/mine
su nobody -s /bin/sh -c "ls $m/set; rm -f $m/open/mine; echo y >$m/no; echo z >$m/open/his" 2>&1 |
    sed 's/.*: //'
stat -c '%U %s' open/his

echo "== a program"
cp /bin/busybox busybox; ./busybox echo "it runs"
(echo x >>busybox) 2>/dev/null; ./busybox true; echo $?; rm busybox
mkdir abi; cd abi; abi tree >../tree.log 2>&1; echo "tree $?"; cat ../tree.log; cd ..; rm -r abi
du -a . | sort -k 2

echo "== mounts"
cd /
exec 5>$m/busy; umount $m 2>/dev/null; echo "busy $?"
mount -o remount,ro $m 2>/dev/null; echo "busy $?"; exec 5>&-
mount -o remount,ro $m; echo $?; show
touch $m/x 2>/dev/null; echo "read-only $?"; rm $m/f 2>/dev/null; echo "read-only $?"
check
mount -o remount,rw,noatime $m; echo $?; show
touch $m/x; rm $m/x
mkdir /tmp/n; mount -t ext4 /dev/vda /tmp/n; ls /tmp/n | md5sum; ls $m | md5sum
mount -t ext4 -o ro /dev/vda /tmp/n 2>/dev/null; echo "other way $?"
umount /tmp/n; umount $m; echo $?; check
mount -t ext4 -o ro,errors=continue /dev/vda $m; show; cat $m/app; umount $m
mount -t ext4 -o errors=remount-ro /dev/vda $m; show
exec 6>$m/held; echo held >&6; umount -l $m; echo later >&6; exec 6>&-
while dumpe2fs -h /dev/vda 2>/dev/null | grep -q needs_recovery; do sleep 0.1; done; check
mount -t ext4 /dev/vda $m; cat $m/held; du -s $m; df -k $m | tail -n 1
umount $m; check

echo "== many"
mount -t ext4 /dev/vda $m; mkdir $m/many; cd $m/many
i=0
while [ $i -lt 2000 ]; do : >"a file whose name is not short, number $i"; i=$((i + 1)); done
ls | wc -l; ls | md5sum
# A directory that loses names while it is read.
ls -U | while read -r name; do rm "$name"; done; ls | wc -l
cd /; rm -r $m/many; umount $m; check

echo "== full"
mount -t ext4 /dev/vda $m
dd if=/dev/zero of=$m/full bs=64k 2>&1 | grep -o 'No space.*'
echo more >$m/more 2>/dev/null; stat -c %s $m/more
df -k $m | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4
rm $m/full; sync; echo more >$m/more; cat $m/more
umount $m; check
dd if=/dev/urandom of=/dev/vda bs=4k count=64 2>/dev/null
mount -t ext4 /dev/vda $m 2>/dev/null; echo "damaged $?"
