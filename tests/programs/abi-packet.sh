#: program abi
abi packet
