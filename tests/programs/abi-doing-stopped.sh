#: program abi
#: only arm64
abi doing stopped
