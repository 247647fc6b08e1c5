#: program abi
abi signals
