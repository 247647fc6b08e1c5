#: slow
#: program abi
abi sealed
