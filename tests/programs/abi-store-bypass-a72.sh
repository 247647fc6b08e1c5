#: program abi
#: machine cortex-a72
abi store-bypass
