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
# Free memory by zone: the form of the lines, and that their numbers belong together.
stat -c '%a %n' /proc/buddyinfo /proc/zoneinfo /proc/pagetypeinfo
awk '{ print $1, $3, NF }' /proc/buddyinfo | sort -u
awk '$1 == "Node" { print $1, $3, NF }
    $1 ~ /^(boost|min|low|high|promo|spanned|present|managed|cma)$/ { print $1, NF }
    $1 == "pages" { print $1, $2, NF }
    $1 ~ /^(protection:|nr_free_pages|node_unreclaimable:|start_pfn:)$/ { print $1 }' /proc/zoneinfo | sort -u
awk '$1 == "spanned" { spanned = $2 } $1 == "present" && $2 > spanned || $1 == "managed" && $2 > spanned { print "more than there is" }' /proc/zoneinfo
awk '{ print $1, NF }' /sys/devices/system/node/node0/numastat
sed -n 1,4p /proc/pagetypeinfo
awk '$5 == "type" { print $1, $3, $6, NF }' /proc/pagetypeinfo | grep -v -e CMA -e Isolate | sort -u
# What udev finds a device by, and what it reads of it.
for device in 1:3 1:11 5:0 5:1 5:2; do
    cd -P "/sys/dev/char/$device" && pwd
    cat dev uevent
    readlink subsystem
    readlink "subsystem/${PWD##*/}"
done
cat /sys/class/net/lo/uevent
readlink /sys/class/net/lo/subsystem
# The network is each process's own.
readlink /proc/net
stat -c '%a %F' /proc/self/net /proc/thread-self/net
for place in net self/net 1/net thread-self/net; do
    head -n 1 "/proc/$place/dev"
done
awk '{ print NF, $13 }' /proc/net/softnet_stat | head -n 1
cat /proc/execdomains /proc/self/projid_map
grep n_tty /proc/tty/ldiscs
# The one user namespace has its identities.
for map in uid_map gid_map projid_map; do
    stat -c %a "/proc/self/$map"
    { echo 0 0 1 >"/proc/self/$map"; } 2>/dev/null || echo refused
done
for word in allow deny other; do
    { echo $word >/proc/self/setgroups; } 2>/dev/null && echo "$word"
done
stat -c %a /proc/self/setgroups
cat /proc/self/setgroups
