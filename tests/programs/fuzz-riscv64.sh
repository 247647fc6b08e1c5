#: program fuzz
#: only riscv64
# As in fuzz-arm64; the numbers of some flags of open(2) differ.
fuzz digest 5 6 35
fuzz digest 5 76 28
fuzz digest 5 124 20
fuzz digest 5 168 18
fuzz digest 5 330 27
