#: program abi
abi pseudo
