#: guest
#: hypervisor
#: long
#: minutes 10
# Debian's Linux as a guest with a disk: the first boot writes and reboots, the second checks.
seq 200000 >disk
truncate -s 8M disk
work='case $(head -c 3 /dev/vda) in
new) dd if=/dev/vda bs=1M skip=4 count=2 2>/dev/null | md5sum; exit 3 ;;
esac
echo the first boot
dd if=/dev/vda of=/dev/vda bs=1M seek=4 count=2 conv=notrunc,fsync 2>/dev/null
echo new | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null
reboot -f'
dd if=disk bs=1M count=2 2>/dev/null | md5sum
vmm --vcpus 2 --memory 192M --disk disk --log --initrd /vm/initrd \
    --append "$(cat /vm/parameters) -- sh -c \"$work\"" /vm/kernel </dev/null
echo "status $?"
