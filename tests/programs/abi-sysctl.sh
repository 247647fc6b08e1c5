#: program abi
abi sysctl
