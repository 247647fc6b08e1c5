#: only arm64
#: program abi
abi points
