#: program abi
abi terminals
