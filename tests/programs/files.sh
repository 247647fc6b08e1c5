# Files: make, append, truncate, seek, link, rename, remove, times.
echo one >file; echo two >>file; cat file
dd if=/dev/zero of=sparse bs=1 count=1 seek=99999 2>/dev/null; wc -c <sparse
printf X | dd of=file bs=1 seek=1 conv=notrunc 2>/dev/null; cat file
truncate -s 5 file; wc -c <file
ln file hard; stat -c '%h %s' file
ln -s file soft; readlink soft; cat soft | wc -c
mv file moved; cat soft 2>/dev/null || echo dangling
[ hard -ef moved ] && echo "same file"
touch -d '2020-02-03 04:05:06' moved; stat -c %Y moved
: >moved; [ -s moved ] || echo empty
rm hard moved soft sparse; ls | wc -l
