#: program abi
#: machine max
abi store-bypass
