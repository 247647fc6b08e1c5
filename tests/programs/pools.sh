#: program pools
#: minutes 3
# A static Rust program on rayon and tokio.
ip link set lo up
pools
