#: program abi
#: machine max-mte
abi mte
