#: program abi
abi tracers
