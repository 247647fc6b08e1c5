# Background jobs, each after the one before it, and wait for each.
after() { until [ -e "$1" ]; do sleep 0.1; done; }
(after second; echo third >>order; exit 3) &
three=$!
(after first; echo second >>order; : >second; exit 2) &
two=$!
(echo first >>order; : >first; exit 1) &
one=$!
wait $one; echo "one $?"
wait $two; echo "two $?"
wait $three; echo "three $?"
cat order
