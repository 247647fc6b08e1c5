#: lmbench lat_select
#: status only
# lmbench's select over a hundred files.
set -e
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
lat_select -N 1 -n 100 file
