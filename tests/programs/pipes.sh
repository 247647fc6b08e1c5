# Pipes of many members, through buffers smaller and larger than a pipe.
seq 1 100000 | grep 7 | sed 's/7/x/g' | sort -r | uniq | tail -n 3 | tr x y
head -c 1000000 /dev/zero | tr '\0' a | dd bs=333 2>/dev/null | wc -c
yes | head -n 100000 | md5sum
