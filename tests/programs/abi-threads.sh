#: program abi
abi threads
