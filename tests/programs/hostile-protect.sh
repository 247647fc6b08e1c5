#: program abi
abi hostile protect
