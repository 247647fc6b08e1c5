#: program abi
abi hostile suid
