# The time of day at the start is that of the machine's clock, which the host sets.
[ $(date +%Y) -ge 2025 ] && echo "not before 2025"
[ $(date +%Y) -le 2100 ] && echo "not after 2100"
