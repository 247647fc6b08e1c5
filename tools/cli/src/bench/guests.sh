cd /tmp
# Stile counts its faults; of others those of ended children are told.
faults() {
    if [ -e /proc/crossings ]; then
        awk '/^fault/ { sum += $NF } END { print sum }' /proc/crossings
    else
        awk '{ print $11 + $13 }' /proc/$$/stat
    fi
}
phase() {
    echo "phase $1 faults $(faults)"
    echo "phase $1"
}
dd if=/dev/zero of=file bs=65536 count=128 2>/dev/null
i=0
while [ $i -lt 300 ]; do
    echo "int f$i(int a, int *b) { int s = a; for (int i = 0; i < a; i++) s += b[i] * (i ^ $i); return s ? s : f$i(s, b); }"
    i=$((i+1))
done >functions.c
cp -r /usr/src/bzip2 .
export ENOUGH=10000 LOOP_O=0 TIMING_O=0
# Phase 1 has no work: what telling phases takes, once all of it was used before.
phase 0
phase 1
phase 2
lat_pagefault -N 1 file
phase 3
i=0
while [ $i -lt 20 ]; do
    tcc -c functions.c -o functions.o || exit
    i=$((i+1))
done
phase 4
make -C bzip2 bzip2 >make.log 2>&1 || exit
phase 5
bzip2/bzip2 -c functions.c | wc -c
