#: program abi
ip link set lo up
abi tcp-memory
