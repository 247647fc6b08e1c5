#: program abi
abi hostile texts
