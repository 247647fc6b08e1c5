#: program abi
abi hostile moving
