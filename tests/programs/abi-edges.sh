# Refusals, limits and exact ends.
#: program abi
abi edges
