#: program abi
#: machine cortex-a53
abi store-bypass
