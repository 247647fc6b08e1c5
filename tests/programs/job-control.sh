# Stop and continue a background process.
sleep 100 &
child=$!
state() { awk '/^State/ { print $2 }' /proc/$child/status; }
kill -STOP $child
until [ "$(state)" = T ]; do :; done
echo stopped
kill -CONT $child
until [ "$(state)" = S ]; do :; done
echo continued
kill $child
wait $child
echo "status $?"
