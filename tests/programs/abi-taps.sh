#: program abi
ip link set lo up
abi taps
