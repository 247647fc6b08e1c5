# A short tour of a guest: what it runs on, and a few programs at work.
echo "== the machine"
uname -srm
grep -m 3 -E 'processor|CPU part|isa' /proc/cpuinfo
echo
echo "== real programs at work"
mkdir /tmp/tour && cd /tmp/tour || exit 1
seq 1 1000 >numbers
echo "sum of 1 to 1000, by awk: $(awk '{ sum += $1 } END { print sum }' numbers)"
echo "the same by ten shells and a pipe: $(
    for first in 0 1 2 3 4 5 6 7 8 9; do
        (sed -n "$((first * 100 + 1)),$((first * 100 + 100))p" numbers | awk '{ sum += $1 } END { print sum }') &
    done | awk '{ sum += $1 } END { print sum }'
)"
tar -cf archive.tar numbers && gzip archive.tar && gunzip -c archive.tar.gz | tar -xOf - numbers | md5sum
sh -c 'kill -SEGV $$'
echo "a shell that killed itself by SIGSEGV gave status $?"
ps | head -n 5
echo
echo "== every crossing that all this made"
