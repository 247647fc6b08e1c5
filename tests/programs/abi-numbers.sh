#: program abi
abi numbers
