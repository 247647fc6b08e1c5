#: program abi
abi cores
