#: lmbench lat_pipe lat_sig lat_fifo
#: status only
# lmbench's pipes and signals.
set -e
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
lat_pipe -N 1
lat_sig -N 1 install
lat_sig -N 1 catch
lat_fifo -N 1
