#: program abi
abi mlock
