#: program abi
abi inherit
