# What /proc tells of the machine, as far as it does not differ from kernel to kernel.
awk '/^(MemTotal|MemFree|MemAvailable):/ { print $1, $3 }' /proc/meminfo
awk '/^processor/ { n++ } END { print (n > 0) }' /proc/cpuinfo
awk '{ print NF }' /proc/uptime; awk '{ print NF }' /proc/loadavg
awk '$1 == "cpu" { print $1, NF > 7 }' /proc/stat
cut -d' ' -f1 /proc/version
grep -c . /proc/mounts | awk '{ print ($1 > 1) }'
grep -w tmpfs /proc/filesystems | tr -d '\t'
cat /proc/sys/kernel/ostype
wc -c </proc/sys/net/ipv4/ip_local_reserved_ports
