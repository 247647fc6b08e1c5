#: program abi
#: machine rv64-vector
abi vector
