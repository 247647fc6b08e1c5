#: program abi
#: machine max
abi sve-default
