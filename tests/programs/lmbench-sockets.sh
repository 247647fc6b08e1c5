#: lmbench lat_unix lat_unix_connect lat_tcp lat_udp lat_connect bw_tcp bw_unix lat_select
#: status only
#: long
# lmbench's sockets.
set -e
ip link set lo up
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
lat_unix -N 1
bw_unix -N 1
for test in lat_tcp lat_udp lat_connect bw_tcp; do
	$test -s
	# The server listens a little after its command has ended.
	until $test -N 1 127.0.0.1; do sleep 0.1; done
	$test -S 127.0.0.1
done
lat_select -N 1 -n 50 tcp
