#: program abi
abi identity
