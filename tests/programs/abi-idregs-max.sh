#: program abi
#: machine max-without-sme
abi idregs
