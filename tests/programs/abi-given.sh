#: program abi
abi given
