#: lmbench lat_proc lat_ctx hello
#: status only
# lmbench's processes.
set -e
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
cp /usr/bin/hello /tmp/hello
lat_proc -N 1 fork
lat_proc -N 1 exec
lat_ctx -N 1 -s 0 2
