# A handled signal interrupts wait; the background job goes on.
trap 'woken=yes' USR1
sleep 300 &
child=$!
(while sleep 0.1; do kill -USR1 $$; done) &
killer=$!
wait $child
echo "wait gave $?, woken: $woken"
trap '' USR1
kill $killer $child
wait $child 2>/dev/null
echo "child gave $?"
