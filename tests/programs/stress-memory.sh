#: package stress-ng
#: file stressors
#: long
#: minutes 20
# Memory under stress-ng. What the packages' archive lay in, a quarter of all, belongs to it.
awk '/^MemTotal/ { print "all memory: " ($2 > 900000) }' /proc/meminfo
sh /tests/stressors vm mmap mremap memfd
