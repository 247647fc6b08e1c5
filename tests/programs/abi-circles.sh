#: program abi
abi circles
