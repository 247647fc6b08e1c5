#: program abi
#: machine rv64
abi store-bypass
