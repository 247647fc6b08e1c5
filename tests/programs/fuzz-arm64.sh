#: program fuzz
#: only arm64
# Two hundred random programs of an ordinary user: each call has the result that it has on Linux.
# Others differ: `fuzz results 5 0 400` shows where, if it is run on both.
fuzz digest 5 1 40
fuzz digest 5 74 46
fuzz digest 5 121 33
fuzz digest 5 211 24
fuzz digest 5 245 31
fuzz digest 5 330 27
