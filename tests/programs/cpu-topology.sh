# What tells programs of CPUs, whose number is the machine's.
cd /sys/devices/system/cpu || exit
[ $(ls -d cpu[0-9]* | wc -l) = $(nproc) ] && echo "as many as there are"
all=$(cat online)
for cpu in cpu[0-9]*; do
    number=${cpu#cpu}
    cd $cpu/topology
    [ "$(cat core_id core_cpus_list thread_siblings_list | uniq)" = $number ] || echo "$cpu: $(cat core_id core_cpus_list)"
    [ "$(cat core_siblings_list package_cpus_list | uniq)" = $all ] || echo "$cpu: $(cat core_siblings_list)"
    [ $((0x$(cat core_cpus))) = $((1 << number)) ] || echo "$cpu: $(cat core_cpus)"
    [ $((0x$(cat package_cpus))) = $(((1 << $(nproc)) - 1)) ] || echo "$cpu: $(cat package_cpus)"
    cmp core_cpus thread_siblings && cmp core_siblings package_cpus && cat physical_package_id | uniq
    cd ../..
done | sort -u
[ $(cat possible) = $all ] && [ $(cat present) = $all ] && [ $(cat ../node/node0/cpulist) = $all ] && echo "all of them"
ls -d cpu64 cpu00 cpu cpu01
