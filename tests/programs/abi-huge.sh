#: program abi
abi huge
