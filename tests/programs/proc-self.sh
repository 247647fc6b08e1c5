# What /proc tells of a process.
cd /tmp
readlink /proc/self/cwd; readlink /proc/self/root; basename "$(readlink /proc/self/exe)"
tr '\0' ' ' </proc/self/cmdline; echo
cat /proc/self/comm
awk '/^(Name|State|Threads|Uid|Gid):/' /proc/self/status
cut -d' ' -f2,3 /proc/self/stat
ls /proc/self/fd | head -n 3
wc -w </proc/self/statm
awk '$NF == "[stack]" { print $2, $NF }' /proc/self/maps
[ "$(sed -n 's/^Pid:\t//p' /proc/$$/status)" = $$ ] && echo "pid matches"
