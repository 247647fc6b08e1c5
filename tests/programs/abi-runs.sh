#: program abi
abi runs
