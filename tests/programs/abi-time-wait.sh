#: slow
#: program abi
ip link set lo up
abi time_wait
