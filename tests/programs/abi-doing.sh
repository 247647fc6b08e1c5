#: program abi
abi doing
