#: guest
#: hypervisor
#: long
#: minutes 30
# Four guests at once, each Debian's Linux with two virtual CPUs.
work='i=0
while [ $i -lt 200 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done
echo $i processes'
for number in 1 2 3 4; do
    {
        vmm --vcpus 2 --memory 128M --log --initrd /vm/initrd \
            --append "$(cat /vm/parameters) -- sh -c \"$work; exit $number\"" /vm/kernel </dev/null
        echo "guest $number: status $?"
    } >said$number &
done
wait
cat said1 said2 said3 said4
