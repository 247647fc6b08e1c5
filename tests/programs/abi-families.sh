#: program abi
ip link set lo up
groups=/proc/sys/net/ipv4/ping_group_range
echo "0 2147483647" > $groups
abi families
echo "1 0" > $groups
