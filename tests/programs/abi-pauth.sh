#: program abi
#: machine max
abi pauth
