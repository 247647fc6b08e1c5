#: program abi
abi devpts
