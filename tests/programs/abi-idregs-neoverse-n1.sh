#: program abi
#: machine neoverse-n1-el2
abi idregs
