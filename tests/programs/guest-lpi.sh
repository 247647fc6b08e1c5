#: guest
#: package qemu-system-arm
#: hypervisor
#: long
#: memory 2G
#: minutes 20
# Debian's own QEMU with KVM as its accelerator, and a disk on PCI, whose interrupts are messages to an ITS: the guest's handlers are
# interrupted as often as can be, by two programs that compute in the guest and two beside it, while two others read the disk. A
# message that is lost is a read that never ends.
work='now() { cut -d. -f1 /proc/uptime; }
grep -q ITS.*MSI /proc/interrupts || echo no messages
for hog in 1 2; do (while :; do :; done) & done
end=$(($(now) + 100)) reads=0
while [ $(now) -lt $end ]; do
    dd if=/dev/vda of=/dev/null bs=4k iflag=direct 2>/dev/null & first=$!
    dd if=/dev/vda of=/dev/null bs=8k iflag=direct 2>/dev/null & second=$!
    wait $first && wait $second && reads=$((reads + 1)) || echo failed
done
[ $reads -gt 0 ] && echo it was read'
truncate -s 4M disk
for hog in 1 2; do
    (while :; do :; done) &
done
qemu-system-aarch64 -accel kvm -machine virt,gic-version=3,its=on -cpu host -smp 2 -m 192M -nodefaults -display none \
    -kernel /vm/kernel -initrd /vm/initrd -append "$(cat /vm/parameters) -- sh -c \"$work\"" \
    -device virtio-serial-device -device virtconsole,chardev=console -chardev stdio,id=console \
    -drive file=disk,format=raw,if=none,id=disk -device virtio-blk-pci,drive=disk </dev/null
echo "status $?"
kill $(jobs -p)
