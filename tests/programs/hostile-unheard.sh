#: program abi
abi hostile unheard
