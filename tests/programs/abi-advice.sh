#: program abi
abi advice
