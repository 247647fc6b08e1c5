#: program abi
#: package e2fsprogs attr
#: module fs/overlayfs/overlay
#: disk 64
#: minutes 3
# overlay with an upper layer on ext4: what it has is there after a remount, the disk is found clean,
# and a full disk or a kill leaves nothing half done.
printf '[defaults]\n[fs_types]\next4 = {\n features = has_journal\n}\n' >mke2fs.conf
export MKE2FS_CONFIG=$PWD/mke2fs.conf
setfattr() { /usr/bin/setfattr "$@"; }
getfattr() { /usr/bin/getfattr "$@"; }
d=/tmp/disk
m=/tmp/m
l=/tmp/lower
mkdir -p $d $m $l
check() {
    umount $d
    e2fsck -fn /dev/vda >check.log 2>&1
    echo "checked: $?"
    mount -t ext4 /dev/vda $d
}
over() { mount -t overlay layers -o "lowerdir=$l,upperdir=$d/u,workdir=$d/w$1" $m; echo "mounted: $?"; }
all() {
    (cd $m && find . | sort | while read -r name; do stat -c '%n %F %a %u:%g %h' "$name"; done)
    (cd $m && find . -type f | sort | xargs md5sum)
}
mkfs.ext4 -q -b 4096 -I 256 -N 512 -E lazy_itable_init=0 \
    -O metadata_csum,64bit,extent,dir_index,filetype,sparse_super,large_file,huge_file,extra_isize \
    /dev/vda; echo "mkfs $?"
mount -t ext4 /dev/vda $d
mkdir $d/u $d/w

echo "== layers on a tmpfs and on ext4"
mkdir -p $l/d/e $l/empty
i=0
while [ $i -lt 20 ]; do echo "file $i" >$l/d/f$i; i=$((i + 1)); done
ln $l/d/f0 $l/d/hard
echo program >$l/tool; chmod 4755 $l/tool; chown 5:6 $l/tool
setfattr -n user.note -v own $l/tool; setfattr -n trusted.note -v secret $l/tool
touch -d '2001-02-03 04:05:06' $l/tool
over
cd $m
before=$(stat -c '%d %i' d/f1)
echo more >>d/f1; chmod 600 d/f2; rm d/f3; mv d/f4 d/moved; ln d/f5 d/linked; rm d/f0; mkdir d/new
ln -s f1 d/link; mknod d/dev c 1 3; mkfifo d/pipe; rm -r d/e; mkdir d/e; rmdir empty; echo x >empty
echo changed >>tool
[ "$(stat -c '%d %i' d/f1)" = "$before" ] && echo "the number stays"
cd /
all >before.log; cat before.log
stat -c '%a %u:%g %s' $m/tool; stat -c %Y $l/tool
getfattr -d -m 'user|trusted' --absolute-names $m/tool
umount $m
check
over
all | cmp - before.log && echo "all is there"
[ "$(stat -c %i $m/d/f1)" = "${before#* }" ] && echo "the number is kept"
(cd $d/u && find . | sort | while read -r name; do stat -c '%n %F %a %t,%T' "$name"; done)
ls -A $d/w/work
umount $m
mount -t overlay layers -o "lowerdir=$d/u:$l" $m; echo "as a lower layer: $?"
all | cmp - before.log && echo "the same"
umount $m

echo "== a change of the disk's flags"
over
exec 5>>$m/tool
mount -o remount,ro $d 2>/dev/null; echo "busy: $?"
exec 5>&-
mount -o remount,ro $d; echo "read-only: $?"
echo x 2>/dev/null >>$m/d/f6; echo "write: $?"
rm $m/d/f6 2>/dev/null; echo "remove: $?"
cat $m/d/f6
mount -o remount,rw $d
echo x >>$m/d/f6; cat $m/d/f6
umount $d 2>/dev/null; echo "the disk ends: $?"
cat $m/d/f6
umount $m
mount -t ext4 /dev/vda $d 2>/dev/null; cat $d/u/d/f6
check

echo "== no room"
head -c 50000000 /dev/zero >$l/large
over
dd if=/dev/zero of=$d/filler bs=64k count=400 2>/dev/null
(echo x >>$m/large) 2>&1 | grep -o 'No space.*'
stat -c %s $m/large
ls -A $d/w/work $d/u | grep large
rm $d/filler; sync
echo x >>$m/large; stat -c %s $m/large
rm $m/large; umount $m
check

echo "== killed"
head -c 30000000 /dev/zero >$l/victim
over
i=0
while [ $i -lt 12 ]; do
    (exec busybox sh -c ": >>$m/victim") &
    child=$!
    busybox usleep $((i * 3000)); kill -9 $child 2>/dev/null; wait $child 2>/dev/null
    size=$(stat -c %s $m/victim)
    [ "$size" = 30000000 ] || echo "size $size"
    ls -A $d/w/work
    i=$((i + 1))
done
i=0
while [ $i -lt 8 ]; do (: >>$m/victim) & i=$((i + 1)); done; wait
stat -c '%s %h' $m/victim $d/u/victim
umount $m
check

echo "== many"
mkdir $l/many
i=0
while [ $i -lt 1000 ]; do : >$l/many/n$i; i=$((i + 1)); done
over
rm $m/many/n1*; ls $m/many | wc -l
i=0
while [ $i -lt 100 ]; do echo $i >$m/many/new$i; i=$((i + 1)); done
ls $m/many | wc -l; ls $d/u/many | wc -l
rm -r $m/many; ls $m; stat -c %F $d/u/many
umount $m
check

echo "== volatile"
over ,volatile
echo x >$m/file; sync
umount $m
over 2>/dev/null
rm -r $d/w/work/incompat
over; cat $m/file; umount $m
check

echo "== flags of inodes"
echo fixed >$d/u/fixed; echo grows >$d/u/grows
chattr +i $d/u/fixed; chattr +a $d/u/grows
over
for name in fixed grows; do
    (echo more >>$m/$name) 2>/dev/null; echo "append: $?"
    (echo anew >$m/$name) 2>/dev/null; echo "write: $?"
    rm -f $m/$name 2>/dev/null; echo "remove: $?"
    mv $m/$name $m/moved 2>/dev/null; echo "move: $?"
    ln $m/$name $m/linked 2>/dev/null; echo "link: $?"
    chmod 600 $m/$name 2>/dev/null; echo "mode: $?"
    cat $m/$name
done
umount $m
chattr -i $d/u/fixed; chattr -a $d/u/grows
check
umount $d
