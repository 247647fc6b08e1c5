#: slow
#: program abi
abi hostile turns
