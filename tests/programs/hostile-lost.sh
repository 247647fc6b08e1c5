#: program abi
abi hostile lost
