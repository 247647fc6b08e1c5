#: program abi
abi hostile pending
