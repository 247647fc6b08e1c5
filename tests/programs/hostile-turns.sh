#: program abi
abi hostile turns
