#: package gdb
#: only riscv64
# gdb, which stops at no system call on RISC-V, begins a program, steps, begins it again, stops where it was, and lets it go on.
export HOME=/tmp
cat > commands <<'END'
set confirm off
set pagination off
set debuginfod enabled off
starti
set $first = $pc
stepi
print $pc != $first
stepi 20
set $there = $pc
kill
tbreak *$there
run
print $pc == $there
print *(char *)$sp == *(char *)$sp
info inferiors
continue
END
gdb -nx -q -batch -x commands --args busybox echo seen by gdb 2>&1 | grep -v -i 'warning\|no symbol\|debuginfod\|^$' | sed 's/0x[0-9a-f]*/ADDRESS/g; s/process [0-9]*/process PID/; s/  */ /g'
cat > commands <<'END'
set pagination off
set debuginfod enabled off
run
print $_siginfo.si_signo
kill
END
gdb -nx -q -batch -x commands --args busybox sh -c 'kill -SEGV $$' 2>&1 | grep 'signal\|^\$'
