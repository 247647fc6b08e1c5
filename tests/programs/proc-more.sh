# Files of /proc and /sys that monitors read, as far as they do not differ from kernel to kernel.
awk 'NR > 1 { print $1 }' /proc/softirqs
awk 'NR == 1 { columns = NF } NR > 1 && NF != columns + 1 { print "short" }' /proc/softirqs
grep ' mounted on /proc ' /proc/self/mountstats
stat -c %a /proc/self/mountstats
cd /sys/devices/system/clocksource/clocksource0
grep -cw "$(cat current_clocksource)" available_clocksource
cat current_clocksource >current_clocksource && echo "set to what it is"
stat -c %a current_clocksource available_clocksource
cd /sys/devices/system/node/node0
awk '/Mem(Total|Free|Used):/ { print $1, $2, $3, NF, $5 }' meminfo
awk '/MemTotal/ { total = $4 } /Mem(Free|Used)/ { rest += $4 } END { print (total == rest) }' meminfo
grep -c '^nr_free_pages ' vmstat
cat ../has_memory
stat -c %a /proc/sys/kernel/dmesg_restrict
