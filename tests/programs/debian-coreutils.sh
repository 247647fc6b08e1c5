#: package dash coreutils findutils grep sed gawk tar xz-utils sqlite3
# Debian's coreutils, not busybox's.
ls --version | head -1 | cut -d" " -f1-3
seq 1000 | shuf --random-source=/dev/zero | sort -n | md5sum
seq 200000 | sort -R --random-source=/dev/zero --parallel=4 | sort -n | tail -1
mkdir -p a/b/c; echo text >a/b/c/file; ln -s c a/b/link; ln a/b/c/file a/hard
chmod 640 a/hard; touch -d "2001-02-03 04:05:06 UTC" a/b/c/file
stat -c "%n %F %a %h %s" a/hard a/b/link; stat -c %Y a/hard
cp -a a copy && diff -r a copy 2>/dev/null; stat -c "%Y %h" copy/hard
mv -n copy moved; ls -A moved; rm -r moved
dd if=/dev/zero of=sparse bs=1 count=1 seek=10M status=none; stat -c "%s %b" sparse; du --apparent-size -k sparse | cut -f1
cp --sparse=always sparse thin; cmp sparse thin && stat -c "%s" thin; truncate -s 5 thin; wc -c <thin
split -b 400k --additional-suffix=.part sparse s.; ls s.*.part | wc -l; cat s.*.part | cmp - sparse && echo whole
printf "b 2\na 1\n" | sort >l; printf "a x\nb y\n" | join l -
echo hello | tee one two >/dev/null; cat one two | sha256sum | cut -c1-16
tail -f one >tailed & until grep hello tailed; do sleep 0.1; done; kill $!; wait $!; echo "tail $?"
timeout 1 sleep 1000; echo "timeout $?"
env -i A=1 env; nice -n 5 nice; nproc >/dev/null && echo nproc
id -u; whoami; readlink -f a/b/link; realpath --relative-to=a a/b/c/file; mktemp -u x.XXXX | wc -c
head -c 100000 /dev/urandom | base64 -w0 | base64 -d | wc -c
install -m 755 one a/installed; stat -c %a a/installed; df . | tail -1 | awk '{ print NF }'
stty -a </dev/null 2>&1 | tail -1; tty </dev/null; printf "%d\n" 0x10
