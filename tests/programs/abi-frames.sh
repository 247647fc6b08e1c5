#: program abi
abi frames
