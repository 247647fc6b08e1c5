#: program abi
#: memory 256M
#: minutes 10
abi hostile exhausted
