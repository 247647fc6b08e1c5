# Time goes on, and sleep sleeps.
one=$(date +%s); sleep 1; two=$(date +%s)
[ $((two - one)) -ge 1 ] && echo "a second at least"
start=$(cut -d. -f1 /proc/uptime); sleep 1.2; end=$(cut -d. -f1 /proc/uptime)
[ $((end - start)) -ge 1 ] && echo "uptime too"
date -u -d @86400 +%F
timeout 1 sleep 100; echo "timeout gave $?"
timeout 10 true; echo "timeout gave $?"
usleep 1000 && echo usleep
