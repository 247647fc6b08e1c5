#: program abi
abi hostile commit
