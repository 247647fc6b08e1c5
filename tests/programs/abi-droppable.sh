#: program abi
#: memory 256M
abi droppable
