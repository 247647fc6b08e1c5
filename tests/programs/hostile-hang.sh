#: program abi
abi hostile hang
