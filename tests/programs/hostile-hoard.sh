#: program abi
abi hostile hoard
