#: slow
#: program abi
#: memory 320M
ip link set lo up
abi hostile datagrams
