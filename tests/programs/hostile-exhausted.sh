#: program abi
#: memory 256M
#: minutes 5
abi hostile exhausted
