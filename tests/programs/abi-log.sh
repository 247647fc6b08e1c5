#: program abi
abi log
