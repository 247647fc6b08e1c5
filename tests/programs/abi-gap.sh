#: program abi
abi gap
