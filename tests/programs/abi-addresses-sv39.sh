#: program abi
#: machine rv64
# How far the addresses of programs go with Sv39.
abi addresses
