#: program abi
abi capabilities
