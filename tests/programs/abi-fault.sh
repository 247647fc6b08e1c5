#: program abi
abi fault
