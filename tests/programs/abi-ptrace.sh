#: program abi
abi ptrace
