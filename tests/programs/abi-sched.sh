#: program abi
abi sched
