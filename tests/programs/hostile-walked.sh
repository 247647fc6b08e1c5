#: program abi
abi hostile walked
