#: program abi
abi fatal
