#: program abi
abi hostile rights
