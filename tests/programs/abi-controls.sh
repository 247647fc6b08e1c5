#: program abi
abi controls
