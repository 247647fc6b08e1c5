#: program abi
abi time
