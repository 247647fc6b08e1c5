#: program abi
abi unix
