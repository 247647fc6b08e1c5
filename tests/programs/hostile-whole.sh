#: program abi
abi hostile whole
