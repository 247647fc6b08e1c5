#: program abi
#: machine rv64-svvptc
abi frames-overflow
