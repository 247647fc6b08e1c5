#: program abi
abi choices
