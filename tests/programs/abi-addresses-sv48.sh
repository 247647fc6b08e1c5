#: program abi
#: machine rv64-svvptc
# How far the addresses of programs go with Sv48.
abi addresses
