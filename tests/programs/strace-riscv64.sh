#: package strace
#: only riscv64
# As strace does elsewhere. Debian's knows no riscv_hwprobe (0x102) and shows it always; counting it (-c) kills strace, on Linux too.
mkdir d
touch d/one d/two
strace -qq -e trace=getdents64,write,exit_group -o calls ls d
sed '/syscall_0x102/d; s/0x[0-9a-f]*/ADDRESS/' calls
strace -qq -e trace=kill -e signal=all -o calls sh -c 'trap "echo caught" USR1; kill -USR1 $$; kill -KILL $$'
echo "status $?"
sed '/syscall_0x102/d; s/kill([0-9]*/kill(PID/; s/si_pid=[0-9]*/si_pid=PID/; s/  */ /g' calls
strace -f -qq -e trace=execve,exit_group -o calls sh -c '(exit 3); env true; exit 4'
echo "status $?"
sed '/syscall_0x102/d; s/^[0-9]* //; s/0x[0-9a-f]*.*)/ADDRESS)/; s/si_[us]time=[^,}]*[,}]//g; s/si_pid=[0-9]*/si_pid=PID/; s/  */ /g' calls | sort
sleep 1000 &
sleeper=$!
strace -qq -p $sleeper -e trace=none -e signal=all -o calls &
# It is attached once the process's status says so.
until grep -q 'TracerPid:.[1-9]' /proc/$sleeper/status; do :; done
kill $sleeper
wait
sed 's/si_pid=[0-9]*/si_pid=PID/' calls
