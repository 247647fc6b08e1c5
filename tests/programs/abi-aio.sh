#: program abi
abi aio
