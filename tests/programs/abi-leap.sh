#: program abi
abi leap
