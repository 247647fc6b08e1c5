#: program abi
abi hostile many
