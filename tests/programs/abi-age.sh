#: program abi
abi age
