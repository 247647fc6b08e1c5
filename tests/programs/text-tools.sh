# sed, awk, sort, cut, tr, uniq, join by paste, comm.
seq 1 20 | sed -n '5,7p;/9$/s/^/nine: /p'
seq 1 10 | awk '$1 % 2 { odd += $1; next } { even += $1 } END { printf "%d %d %.3f\n", odd, even, odd / even }'
printf 'b 2\na 10\nc 1\n' | sort -k2 -n
printf 'b 2\na 10\nc 1\n' | sort -r | cut -d' ' -f1 | tr a-z A-Z | paste -s -d,
printf 'x\nx\ny\n' | uniq -c | awk '{ print $1, $2 }'
printf '1\n2\n3\n' >one; printf '2\n3\n4\n' >two; comm one two
printf 'hello\n' | rev; printf 'abc' | od -An -tx1; expr 7 \* 6
