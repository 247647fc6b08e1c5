#: program abi
abi accounting
