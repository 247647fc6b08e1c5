#: program abi
abi files
