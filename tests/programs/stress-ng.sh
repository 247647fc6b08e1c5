#: package stress-ng
#: long
#: minutes 20
# stress-ng's stressors, 20 s each with four workers: none fails, and free memory comes back to where it was.
ip link set lo up
free() { sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo; }
stress() { stress-ng --quiet --temp-path /tmp "--$1" 4 --vm-bytes 64M --timeout "$2" >log 2>&1 || { echo "$1: status $?"; tail log; }; }
for kind in cpu vm fork clone futex signal sigq pipe mmap mremap poll epoll timer switch get dentry rename sock udp eventfd memfd pthread; do
	# What a stressor needs once stays: its first run is not counted.
	stress $kind 1
	before=$(free)
	stress $kind 20
	after=$(free)
	[ "$after" -gt $((before - 16384)) ] && echo "$kind: memory is back" || echo "$kind: $before kB free, then $after"
done
