#: program abi
abi attributes
