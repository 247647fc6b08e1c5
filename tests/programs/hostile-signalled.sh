#: program abi
abi hostile signalled
