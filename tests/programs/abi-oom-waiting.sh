#: program abi
#: memory 256M
abi oom-waiting
