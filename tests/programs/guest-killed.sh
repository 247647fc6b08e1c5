#: guest
#: hypervisor
#: minutes 10
# Nothing is left of a monitor that is killed while its guest runs with its timer on: neither memory, nor an identifier (there
# are 255), nor a timer or interrupt that the next one would see.
# The guest says a line on its PL011, sets its virtual timer to 4096 ticks, and spins:
#   movz x1, #0x900, lsl #16; movz w0, #10; str w0, [x1]; movz x2, #4096; msr cntv_tval_el0, x2; movz x2, #1;
#   msr cntv_ctl_el0, x2; b .
printf '\001\040\241\322\100\001\200\122\040\000\000\271\002\000\202\322\002\343\033\325\042\000\200\322\042\343\033\325\000\000\000\024' >spin
mkfifo lines
killed() {
    /vm/vmm --memory 16M spin </dev/null >lines &
    read -r line <lines
    kill -9 $!
    wait $! 2>/dev/null
}
free() { sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo; }
i=0
while [ $i -lt 20 ]; do killed; i=$((i + 1)); done
before=$(free)
while [ $i -lt 320 ]; do killed; i=$((i + 1)); done
echo "$i were killed"
# Some of it comes back a little later.
n=0
while lost=$((before - $(free))); [ $lost -ge 1000 ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
# A page for each would be 1200 KiB.
[ $lost -lt 1000 ] && echo "all memory came back" || echo "$lost KiB are lost"
