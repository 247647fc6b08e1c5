#: program abi
abi ipc
