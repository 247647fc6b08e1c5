#: program abi
abi handlers
