#: program abi
abi records
