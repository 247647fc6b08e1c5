#: program abi
abi reserved
