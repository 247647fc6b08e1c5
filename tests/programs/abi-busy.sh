#: program abi
abi busy
