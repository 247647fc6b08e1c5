#: slow
#: program abi
abi leap
