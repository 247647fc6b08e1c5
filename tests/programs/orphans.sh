# An orphan goes on, and PID 1 becomes its parent.
rm -f done
sh -c '(sleep 0.3; awk "/^PPid/ { print \$2 }" /proc/self/status >parent; echo >done) &'
until [ -e done ]; do sleep 0.1; done
echo "orphan's child has a parent: $(test "$(cat parent)" -gt 0 && echo yes)"
sh -c 'sleep 1000 & echo $! >pid'
awk '/^PPid/ { print "parent", $2 }' "/proc/$(cat pid)/status"
kill "$(cat pid)"
