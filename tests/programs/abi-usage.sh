#: program abi
abi usage
