# Programs that take tens of megabytes and give them back, one after another.
for i in 1 2 3 4 5; do
    awk 'BEGIN { for (i = 0; i < 200000; i++) a[i] = i "x"; print length(a) }'
done
head -c 20000000 /dev/zero | tail -c 1000 | wc -c
