#: lmbench lat_syscall
#: status only
# lmbench's system calls, dynamically linked as Debian has them.
set -e
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
touch file
for what in null read write "stat file" "fstat file" "open file"; do
    lat_syscall -N 1 $what
done
