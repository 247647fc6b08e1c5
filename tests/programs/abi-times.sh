#: program abi
abi times
