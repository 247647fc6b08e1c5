#: guest
#: hypervisor
#: long
#: minutes 30
# Debian's Linux as a guest with one, four and sixteen virtual CPUs: a thousand processes each.
work='grep -c ^processor /proc/cpuinfo
i=0
while [ $i -lt 1000 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done
echo $i processes'
for vcpus in 1 4 16; do
    vmm --vcpus $vcpus --memory 192M --log --initrd /vm/initrd \
        --append "$(cat /vm/parameters) -- sh -c \"$work; exit $vcpus\"" /vm/kernel </dev/null
    echo "status $?"
done
