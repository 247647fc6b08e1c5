#: program abi
abi pipes
