#: program abi
abi pidfd
