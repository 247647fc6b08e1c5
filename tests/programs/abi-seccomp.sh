#: program abi
abi seccomp
