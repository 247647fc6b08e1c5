#: program abi
abi splice
