#: slow
#: minutes 6
#: program abi
abi leap
