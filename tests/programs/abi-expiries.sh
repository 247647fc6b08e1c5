#: program abi
abi expiries
