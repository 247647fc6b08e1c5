#: program abi
#: machine rv64-vector
# How far the addresses of programs go with Sv57.
abi addresses
