# A writer whose reader is gone is killed by SIGPIPE, or gets EPIPE where that is ignored.
(seq 1 1000000; echo "status $?" >&2) 2>status | head -n 2
cat status
trap '' PIPE
(seq 1 1000000 2>message; echo "status $?" >&2) 2>status | head -n 2
cat status
