# A handled signal interrupts wait; the background job goes on.
trap 'echo woken' USR1
sleep 30 &
child=$!
(sleep 0.2; kill -USR1 $$) &
wait $child
echo "wait gave $?"
kill $child
wait $child 2>/dev/null
echo "child gave $?"
