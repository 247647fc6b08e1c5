#: program abi
abi limits
