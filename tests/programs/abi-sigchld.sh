#: program abi
abi sigchld
