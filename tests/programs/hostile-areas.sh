#: program abi
abi hostile areas
