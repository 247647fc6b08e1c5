#: program abi
abi arguments
