#: guest
#: package qemu-system-arm
#: hypervisor
#: long
#: memory 2G
#: minutes 20
# Debian's own QEMU with KVM as its accelerator: its Linux runs programs and a disk to the end; then one is saved in the middle
# of its work, its QEMU ends, and another one restores it.
machine='qemu-system-aarch64 -accel kvm -machine virt,gic-version=3 -cpu host -smp 2 -m 192M -nodefaults -display none
    -kernel /vm/kernel -initrd /vm/initrd -device virtio-serial-device -device virtconsole,chardev=console'
parameters="$(cat /vm/parameters) --"

seq 100000 >disk
truncate -s 2M disk
$machine -chardev stdio,id=console -drive file=disk,format=raw,if=none,id=disk -device virtio-blk-device,drive=disk \
    -append "$parameters sh -c \"
    grep -c ^processor /proc/cpuinfo
    i=0
    while [ \$i -lt 100 ]; do (exit 7); [ \$? = 7 ] || echo lost; i=\$((i + 1)); done
    echo \$i processes
    head -c 588895 /dev/vda | md5sum
    echo written | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null\"" </dev/null
echo "status $?"
head -n 1 disk

mkfifo said monitor.in monitor.out
work='i=0
seq 100000 >/tmp/numbers
(while :; do :; done) &
echo ready
read -r word
echo $word after $i
md5sum </tmp/numbers
kill $! && echo the other process is there
while [ $i -lt 100 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done
echo $i processes'
$machine -chardev file,id=console,path=said -monitor pipe:monitor -append "$parameters sh -c \"$work\"" </dev/null &
cat monitor.out >/dev/null &
exec 3<said 4>monitor.in
read -r line <&3
echo "saved when it was $line"
printf 'migrate file:state\nquit\n' >&4
wait
echo 'go on' | $machine -chardev stdio,id=console -incoming file:state -append "$parameters sh -c \"$work\""
echo "status $?"
