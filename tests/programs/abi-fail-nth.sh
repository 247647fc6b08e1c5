#: program abi
#: slow
ip link set lo up
abi fail-nth
