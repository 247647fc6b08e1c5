#: program abi
#: package erofs-utils attr coreutils e2fsprogs
#: disk 32
#: minutes 3
# EROFS on a disk: made, mounted, and read.
for name in ls stat touch setfattr getfattr; do eval "$name() { /usr/bin/$name \"\$@\"; }"; done
show() { grep ' /tmp/m ' /proc/mounts | sed 's/,acl//; s/,cache_strategy=[a-z]*//'; }
make() { mkfs.erofs --quiet -T 1000000000 -U 01234567-89ab-4cde-8f01-23456789abcd "$@"; echo "mkfs $?"; }
mkdir -p /tmp/m /tmp/n
m=/tmp/m here=$PWD
grep -w erofs /proc/filesystems
mount -t erofs /dev/vda $m 2>/dev/null; echo "nothing there: $?"

mkdir tree; cd tree
mkdir -p d/e many; echo one >d/one; ln d/one two; ln -s d/one three; mkfifo pipe; mknod null c 1 3
mknod large b 259 70000
ln -s "$(printf '%0200d' 7)" long; : >empty
i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i + 1)); done >lines
head -c 4096 lines >block; head -c 8191 lines >blocks
truncate -s 1M sparse; echo middle | dd of=sparse bs=1k seek=500 conv=notrunc 2>/dev/null
i=0; while [ $i -lt 600 ]; do echo $i >"many/a name that takes some room $i"; i=$((i + 1)); done
chmod 4751 d/one; chown 5:6 d/one; chmod 700 d/e; echo hidden >d/e/file; chown 70000:80000 lines
setfattr -n user.one -v 1 lines; setfattr -n trusted.two -v 22 lines
setfattr -n security.three -v x lines; setfattr -n user.one -v 1 block
setfattr -n user.big -v "$(head -c 2000 lines | tr '\n' ' ')" lines
touch -d '1999-01-02 03:04:05.123456789 UTC' block
cp /bin/busybox busybox; cd ..

for how in "4096 all" "1024 mkfs"; do
    size=${how% *} time=${how#* }
    echo "== blocks of $size, $time-time"
    make -b $size --$time-time /dev/vda tree
    mount -t erofs -o nonsense /dev/vda $m 2>/dev/null; echo "option: $?"
    mount -t erofs /dev/vda $m; echo "mount $?"
    show
    stat -f -c '%T %s %S %f %a %l %i' $m
    cd $m
    ls
    stat -c '%n %F %a %h %u %g %s %b %t,%T %w' [!b]* block* d/one d/e/file; stat -c '%.9Y %.9X %.9Z' block
    ls many | md5sum; ls -U many | wc -l
    cat two three; readlink long | wc -c; cat "many/a name that takes some room 77"
    ls none 2>/dev/null; echo "no name $?"; ls many/none 2>/dev/null; echo "no name $?"
    ls lines/x 2>/dev/null; echo "no directory $?"
    md5sum lines block blocks sparse empty; cmp busybox /bin/busybox && echo same
    echo 3 >/proc/sys/vm/drop_caches; md5sum lines sparse
    tail -c 20 lines; dd if=lines bs=1 skip=5000 count=20 2>/dev/null; echo
    echo thrown >null; ./busybox echo "it runs"
    getfattr -d -m - lines | md5sum; getfattr -d -m - block d/one
    getfattr -n user.none lines 2>/dev/null; echo "no attribute $?"
    getfattr -n other.one lines 2>/dev/null; echo "no such family $?"
    echo "== nothing changes"
    for what in "touch new" "rm two" "mkdir new" "mv two new" "ln two new" "ln -s two new" \
        "touch lines" "chmod 600 lines" "chown 1 lines" "setfattr -n user.one -v 2 lines" \
        "rmdir d" "truncate -s 1 lines" "chattr +i lines"; do
        $what 2>/dev/null; echo "$what: $?"
    done
    (echo x >>lines) 2>/dev/null; echo "append: $?"
    (: <>lines) 2>/dev/null; echo "read and write: $?"
    su nobody -s /bin/sh -c "cat d/e/file" 2>/dev/null; echo "not permitted $?"
    abi erofs
    cd /
    echo "== mounts"
    exec 5<$m/lines; umount $m 2>/dev/null; echo "busy $?"; exec 5<&-
    mount -o remount,rw $m; echo "remount $?"; show
    mount -o remount,nouser_xattr $m; show; getfattr -d -m - $m/lines 2>/dev/null | grep -c user
    getfattr -n user.one $m/lines 2>/dev/null; echo "no users' $?"
    mount -o remount,ro,noatime $m; show
    mount -t erofs /dev/vda /tmp/n 2>/dev/null; echo "other way $?"
    mount -t erofs -o ro /dev/vda /tmp/n; echo "twice $?"; ls /tmp/n | md5sum; umount /tmp/n
    mount -t ext4 -o ro /dev/vda /tmp/n 2>/dev/null; echo "another kind $?"
    exec 6<$m/d/one; umount -l $m; cat <&6; exec 6<&-
    mount -t erofs /dev/vda $m; echo "again $?"; umount $m; echo "umount $?"
    cd $here
done
