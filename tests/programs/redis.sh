#: package redis-server redis-tools
#: long
# A server with an event loop and its clients, over TCP and a Unix socket.
set -e
ip link set lo up
redis-server --save '' --bind 127.0.0.1 ::1 --unixsocket redis.sock --daemonize yes --logfile redis.log
until redis-cli ping 2>/dev/null | grep -q PONG; do :; done
redis-cli set key value
redis-cli -h ::1 get key
redis-cli -s redis.sock append key s
for where in '-h 127.0.0.1' '-h ::1' '-s redis.sock'; do
	redis-benchmark $where -q -n 2000 -c 50 -P 4 -t set,get,lpush,lrange_100 >out
	tr '\r' '\n' <out | grep -c 'requests per second'
done
redis-cli llen mylist
redis-cli shutdown nosave
while redis-cli ping 2>/dev/null; do :; done
grep -c 'ready to exit' redis.log
