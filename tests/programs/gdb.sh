#: package gdb
#: only arm64
# gdb begins a program, steps, stops at a system call, looks and changes, and lets it go on.
export HOME=/tmp
cat > commands <<'END'
set confirm off
set pagination off
set debuginfod enabled off
starti
set $first = $pc
stepi
print $pc != $first
catch syscall write
continue
print *(char *)$sp == *(char *)$sp
info inferiors
delete
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
