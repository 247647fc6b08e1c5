#: guest
#: hypervisor
#: long
#: minutes 60
# Debian's Linux as a guest: one, four and sixteen virtual CPUs, a thousand processes, its disk, a reboot; four at once; and
# nothing is left of one that is killed.
guest() {
    vcpus=$1
    shift
    vmm --vcpus $vcpus --memory 192M --log --initrd /vm/initrd "$@" /vm/kernel </dev/null
}
append() { echo "$(cat /vm/parameters) -- sh -c \"$1\""; }
forks='i=0; while [ $i -lt 1000 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done; echo $i processes'
for vcpus in 1 4 16; do
    guest $vcpus --append "$(append "grep -c ^processor /proc/cpuinfo; $forks; exit $vcpus")"
    echo "status $?"
done

# The first boot writes and reboots, the second checks.
seq 200000 >disk
truncate -s 8M disk
checks='case $(head -c 3 /dev/vda) in
new) dd if=/dev/vda bs=1M skip=4 count=2 2>/dev/null | md5sum; exit 3 ;;
esac
echo the first boot
dd if=/dev/vda of=/dev/vda bs=1M seek=4 count=2 conv=notrunc,fsync 2>/dev/null
echo new | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null
reboot -f'
dd if=disk bs=1M count=2 2>/dev/null | md5sum
guest 2 --disk disk --append "$(append "$checks")"
echo "status $?"

for number in 1 2 3 4; do
    guest 2 --append "$(append "$forks; exit $number")" >out$number
    echo "guest $number: $(cat out$number) status $?" >end$number &
done
wait
cat end1 end2 end3 end4
