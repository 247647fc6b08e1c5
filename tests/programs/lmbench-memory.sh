#: lmbench lat_pagefault lat_mmap
#: status only
# lmbench's page faults and mappings.
set -e
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
dd if=/dev/zero of=file bs=65536 count=64 2>/dev/null
lat_pagefault -N 1 file
lat_mmap -N 1 1m file
