# A thousand files in a folder.
i=0
while [ $i -lt 1000 ]; do
    echo $i >file$i
    i=$((i + 1))
done
ls | wc -l
cat file* | awk '{ sum += $1 } END { print sum }'
rm file?
ls | wc -l
rm file*
ls | wc -l
