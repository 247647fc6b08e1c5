# A file of 64 MiB, written, read, and compared.
dd if=/dev/zero of=big bs=65536 count=1024 2>/dev/null
wc -c <big; md5sum <big
cp big copy; cmp big copy && echo same
rm big copy
