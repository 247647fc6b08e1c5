#: slow
#: program abi
abi hostile signalled
