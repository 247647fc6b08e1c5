#: program abi
#: machine cortex-a76
abi idregs
