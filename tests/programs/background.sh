# Background jobs in order of their sleeps, and wait for each.
(sleep 0.6; echo third; exit 3) &
three=$!
(sleep 0.3; echo second; exit 2) &
two=$!
(echo first; exit 1) &
one=$!
wait $one; echo "one $?"
wait $two; echo "two $?"
wait $three; echo "three $?"
