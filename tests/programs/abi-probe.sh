#: program abi
abi probe
