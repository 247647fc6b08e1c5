#: program abi
#: only arm64
abi tags
