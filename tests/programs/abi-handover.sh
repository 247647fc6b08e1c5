#: program abi
abi handover
