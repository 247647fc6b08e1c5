#: program abi
abi hostile fork
