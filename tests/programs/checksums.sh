# Checksums of a megabyte.
seq 1 160000 | head -c 1000000 >data
md5sum data; sha1sum data; sha256sum data; sha512sum data
