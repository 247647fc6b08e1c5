# tar, gzip, bzip2, xz, cpio there and back.
mkdir tree; for i in 1 2 3; do seq 1 $((i * 1000)) >tree/$i; done; ln -s 1 tree/link
tar -czf tree.tar.gz tree; mkdir one; tar -xzf tree.tar.gz -C one; cat one/tree/* | md5sum; readlink one/tree/link
cat tree/3 | gzip | gunzip | md5sum; cat tree/3 | bzip2 | bunzip2 | md5sum
find tree | sort | cpio -o -H newc 2>/dev/null >tree.cpio; mkdir two; (cd two; cpio -i 2>/dev/null <../tree.cpio); cat two/tree/? | md5sum
cat tree/3 | md5sum
