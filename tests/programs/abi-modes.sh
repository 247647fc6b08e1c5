#: program abi
abi modes
