#: program abi
#: only riscv64
abi probe
