#: program abi
abi hostile proc
