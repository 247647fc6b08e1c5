#: program abi
abi processes
