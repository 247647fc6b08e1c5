#: program threads
# A static Rust program with eight threads.
threads 2>/dev/null
