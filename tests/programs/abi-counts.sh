#: program abi
abi counts
