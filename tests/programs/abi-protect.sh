#: program abi
abi protect
