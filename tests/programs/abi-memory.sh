#: program abi
abi memory
