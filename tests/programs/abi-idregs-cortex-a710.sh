#: program abi
#: machine cortex-a710
abi idregs
