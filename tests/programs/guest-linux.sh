#: guest
#: hypervisor
#: minutes 10
# Debian's Linux as a guest of two virtual CPUs: its devices, a hundred processes, and the status that it leaves.
dd if=/dev/zero of=disk bs=1M count=4 2>/dev/null
vmm --vcpus 2 --memory 192M --disk disk --log --no-reboot --initrd /vm/initrd --append "$(cat /vm/parameters) -- sh -c \"
    uname -s
    grep -c ^processor /proc/cpuinfo
    i=0
    while [ \$i -lt 100 ]; do (exit 7); [ \$? = 7 ] || echo lost; i=\$((i + 1)); done
    echo \$i processes
    cat /sys/devices/virtual/misc/hw_random/rng_available
    seq 100000 | dd of=/dev/vda bs=64k conv=notrunc,fsync 2>/dev/null
    dd if=/dev/vda bs=4k count=100 2>/dev/null | md5sum
    exit 7\"" /vm/kernel </dev/null
echo "status $?"
dd if=disk bs=4k count=100 2>/dev/null | md5sum
