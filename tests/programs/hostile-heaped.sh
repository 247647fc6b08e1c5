#: program abi
abi hostile heaped
