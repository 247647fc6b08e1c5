#: program abi
abi hostile nested
