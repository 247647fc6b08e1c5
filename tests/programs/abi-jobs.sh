#: program abi
abi jobs
