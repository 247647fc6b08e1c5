#: program abi
abi accepted
