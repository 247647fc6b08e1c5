#: program abi
# A C library that has an area of its own is told not to.
GLIBC_TUNABLES=glibc.pthread.rseq=0 abi ptrace
