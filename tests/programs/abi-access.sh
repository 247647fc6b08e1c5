#: program abi
abi access
