#: only arm64
#: package busybox:armhf bash:armhf coreutils:armhf findutils:armhf grep:armhf sed:armhf gzip:armhf tar:armhf
# Debian's shells and tools of 32-bit Arm; this script's own shell is one of them.
ip link set lo up
busybox | head -n 1 | cut -c1-8
bash -c '
echo "$MACHTYPE" "$((1 << 62))"
mkdir -p tree/{a,b}/{c,d}; for f in tree/*/*/; do echo "${f//\//-}" >"$f/file"; done
find tree -type f -printf "%p %s %m\n" | sort
tar -c tree | gzip -9 | gzip -d | tar -t | sort | sha256sum
mapfile -t lines < <(grep -rh tree tree | sort | sed "s/tree/root/"); echo "${#lines[@]}" "${lines[-1]}"
coproc { while read -r line; do echo "got $line"; done; }
echo one >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; echo "$answer"
trap "echo usr1" USR1; kill -USR1 $$
sleep 100 & kill $!; wait $!; echo "status $?"
trap "echo end" EXIT
ulimit -n 77; ulimit -n; ulimit -s
exec 3<>/dev/tcp/127.0.0.1/9 || echo refused
printf "%s\n" {1..2000} | sort -R | sort -n | tail -n 1
dd if=/dev/zero bs=1M count=3 status=none | wc -c
truncate -s 9G large; stat -c "%s %b %F" large; rm large
ln -s tree link; readlink -f link; touch -d "1999-12-31 23:59:58 UTC" stamp; date -u -r stamp +%s
chown 70000:7 stamp; stat -c "%u %g" stamp; id -u
nice -n 5 nice; timeout 0.1 sleep 10; echo "status $?"
env -i A=1 env; tee two <<<"text" | cat - two; cmp two two && mv two three && ls -x
'
nc -l -p 4000 -e cat &
until echo 'over the loopback' | nc 127.0.0.1 4000 2>/dev/null; do sleep 0.1; done
uname -m
