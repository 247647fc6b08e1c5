#: slow
#: program abi
ip link set lo up
abi hostile executes
