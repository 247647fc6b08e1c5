#: program abi
abi same-cpus
