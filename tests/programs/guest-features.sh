#: guest
#: hypervisor
#: machine max-el2
#: minutes 10
# What Debian's Linux finds as a guest on CPUs with SVE and pointer authentication.
vmm --vcpus 2 --memory 192M --log --no-reboot --initrd /vm/initrd --append "$(cat /vm/parameters) -- sh -c \"
    grep -c ^processor /proc/cpuinfo
    grep -m 1 ^Features /proc/cpuinfo | tr ' ' '\n' | grep -E '^(sve|pac)'
    cat /proc/sys/abi/sve_default_vector_length
    seq 100000 | md5sum
    exit 7\"" /vm/kernel </dev/null
echo "status $?"
