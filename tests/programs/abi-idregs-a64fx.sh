#: program abi
#: machine a64fx
abi idregs
