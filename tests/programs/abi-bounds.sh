#: program abi
abi bounds
