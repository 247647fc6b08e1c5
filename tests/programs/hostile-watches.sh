#: program abi
abi hostile watches
