#: only arm64
#: machine a64fx
#: program32 arm32
#: program abi
# A CPU without AArch32.
abi exec /usr/bin/arm32 /bin/no-such-program
