#: program abi
#: machine max
abi guard
