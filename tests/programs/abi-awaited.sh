#: program abi
abi awaited
