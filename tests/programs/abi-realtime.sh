#: program abi
abi realtime
