#: slow
#: program abi
abi hostile lost
