#: slow
#: program abi
abi hostile crowd
