#: only arm64
#: program32 arm32
ifconfig lo up
arm32 objects old sockets timers trace
