#: guest
#: program kvm-fuzz
#: hypervisor
#: long
#: minutes 90
# Hostile guests for ten minutes beside Debian's Linux, which goes on working, as the host does.
now() { cut -d . -f 1 /proc/uptime; }
end=$(($(now) + 600))
seed=100
while [ "$(now)" -lt $end ]; do
    kvm-fuzz $seed 1 >>hostile 2>&1 || echo "status $?" >>hostile
    seed=$((seed + 1))
done &
work='i=0; while [ $i -lt 300 ]; do (exit 7); [ $? = 7 ] || echo lost; i=$((i + 1)); done; seq 100000 | md5sum; exit 9'
rounds=0
while [ "$(now)" -lt $end ]; do
    vmm --vcpus 2 --memory 192M --log --no-reboot --initrd /vm/initrd --append "$(cat /vm/parameters) -- sh -c \"$work\"" \
        /vm/kernel </dev/null >said
    echo "status $?" >>said
    [ $rounds = 0 ] && cp said first
    cmp said first || cat said
    rounds=$((rounds + 1))
done
wait
cat first
# What they say of the host's memory means nothing while another guest comes and goes.
grep -v -e 'came back' -e 'are lost' hostile | sort -u
[ $rounds -ge 1 ] && echo "the guest went on"
