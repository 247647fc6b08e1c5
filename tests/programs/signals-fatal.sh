# What the shell sees of children killed by each signal that ends a process without a core.
for signal in HUP INT KILL USR1 USR2 PIPE ALRM TERM; do
    sh -c "kill -$signal \$\$; echo survived"
    echo "$signal $?"
done 2>/dev/null
