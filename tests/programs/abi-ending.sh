#: program abi
abi ending
