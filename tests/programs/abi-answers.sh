#: program abi
abi answers
