#: program abi
abi cut
