# A short session in a guest: what it runs on, and a hundred processes.
echo "== the guest"
uname -srm
echo "processors: $(grep -c ^processor /proc/cpuinfo)"
grep MemTotal /proc/meminfo
echo
echo "== programs at work"
i=0
while [ $i -lt 100 ]; do
    (exit 7)
    [ $? = 7 ] || exit 1
    i=$((i + 1))
done
echo "$i processes were forked, and their statuses came back"
echo "sum of 1 to 1000, by a pipe: $(seq 1 1000 | awk '{ sum += $1 } END { print sum }')"
