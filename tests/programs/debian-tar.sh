#: package dash coreutils findutils grep sed gawk tar xz-utils sqlite3
# Debian's tar and xz: archives with links, modes, times and holes; threads.
mkdir -p src/deep; seq 50000 >src/numbers; ln -s numbers src/link; ln src/numbers src/deep/hard
chmod 600 src/deep/hard; truncate -s 4M src/hole; mkfifo src/fifo; touch -d @1000000000 src/numbers
tar --sort=name --mtime=@0 -cf all.tar src; tar -tvf all.tar --utc | awk '{ print $1, $3, $6, $7, $8 }'
tar -cJf all.tar.xz src; mkdir out; tar -xJf all.tar.xz -C out; cmp out/src/numbers src/numbers && echo same
stat -c '%a %h %Y' out/src/numbers; readlink out/src/link; ls -l out/src/fifo | cut -c1
xz -T2 -k --block-size=64KiB src/numbers; xz -t src/numbers.xz && xz -l --robot src/numbers.xz | awk '/^totals/ { print $2, ($3 > 1), $5 }'
xz -dc src/numbers.xz | cmp - src/numbers && echo decompressed
tar -cSf thin.tar src/hole; [ $(stat -c %s thin.tar) -lt 100000 ] && echo thin
printf broken >bad.xz; xz -t bad.xz 2>/dev/null; echo "bad $?"
