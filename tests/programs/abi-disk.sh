#: program abi
#: disk 64
abi disk
