#: program abi
abi mount-options
