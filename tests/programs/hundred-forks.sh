# A hundred processes one after another, and a hundred at once.
i=0
while [ $i -lt 100 ]; do
    (exit $((i % 7)))
    sum=$((${sum:-0} + $?))
    i=$((i + 1))
done
echo "one after another: $sum"
i=0
while [ $i -lt 100 ]; do
    (echo $i; exit 0) &
    i=$((i + 1))
done >numbers
wait
sort -n numbers | awk '{ sum += $1 } END { print "at once:", NR, sum }'
