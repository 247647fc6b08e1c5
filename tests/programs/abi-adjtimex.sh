#: program abi
#: minutes 6
abi adjtimex
