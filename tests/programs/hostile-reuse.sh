#: program abi
abi hostile reuse
