#: program abi
abi mounted
