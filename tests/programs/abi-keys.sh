#: program abi
abi keys
