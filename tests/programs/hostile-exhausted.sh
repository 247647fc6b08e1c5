#: program abi
#: memory 256M
#: long
#: minutes 10
abi hostile exhausted
