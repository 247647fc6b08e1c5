#: program abi
abi hostile timers
