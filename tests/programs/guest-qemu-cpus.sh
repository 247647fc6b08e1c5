#: guest
#: package qemu-system-arm
#: hypervisor
#: long
#: memory 2G
#: minutes 30
# Debian's own QEMU with KVM as its accelerator, with one, four and sixteen virtual CPUs: its Linux makes a thousand processes,
# writes its disk and reboots; then it checks the disk and powers off.
work='case $(head -c 3 /dev/vda) in
new) dd if=/dev/vda bs=1M skip=4 count=2 2>/dev/null | md5sum; exit ;;
esac
grep -c ^processor /proc/cpuinfo
i=0
while [ $i -lt 1000 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done
echo $i processes
dd if=/dev/vda of=/dev/vda bs=1M seek=4 count=2 conv=notrunc,fsync 2>/dev/null
echo new | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null
reboot -f'
for vcpus in 1 4 16; do
    seq 200000 >disk
    truncate -s 8M disk
    dd if=disk bs=1M count=2 2>/dev/null | md5sum
    qemu-system-aarch64 -accel kvm -machine virt,gic-version=3 -cpu host -smp $vcpus -m 192M -nodefaults -display none \
        -kernel /vm/kernel -initrd /vm/initrd -append "$(cat /vm/parameters) -- sh -c \"$work\"" \
        -device virtio-serial-device -device virtconsole,chardev=console -chardev stdio,id=console \
        -drive file=disk,format=raw,if=none,id=disk -device virtio-blk-device,drive=disk </dev/null
    echo "status $?"
done
