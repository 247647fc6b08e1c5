#: program abi
abi low
