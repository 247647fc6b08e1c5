#: program abi
abi hostile long
