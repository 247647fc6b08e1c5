#: program abi
#: machine max
abi copies
