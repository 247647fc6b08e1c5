#: program abi
abi beside
