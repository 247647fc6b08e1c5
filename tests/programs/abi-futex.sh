#: program abi
abi futex
