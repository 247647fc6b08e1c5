#: program abi
#: machine neoverse-v1
abi idregs
