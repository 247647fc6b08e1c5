#: program abi
abi refused
