#: program abi
abi timers
