#: program abi
abi watch
