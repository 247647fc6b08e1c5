#: program abi
abi rights
