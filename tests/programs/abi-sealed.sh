#: program abi
abi sealed
