#: program abi
#: memory 256M
#: long
abi oom
