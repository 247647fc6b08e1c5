#: program abi
abi hostile crowd
