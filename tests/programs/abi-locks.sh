#: program abi
abi locks
