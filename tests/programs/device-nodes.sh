# The usual devices.
echo gone >/dev/null; cat /dev/null
head -c 5 /dev/zero | od -An -tx1
echo x 2>/dev/null >/dev/full || echo "no space"
head -c 1000 /dev/urandom | wc -c
[ "$(head -c 16 /dev/urandom | md5sum)" != "$(head -c 16 /dev/urandom | md5sum)" ] && echo random
for node in null zero full random urandom tty; do stat -c '%F %t %T %n' /dev/$node; done
echo through >/dev/stdout
echo piped | cat /dev/stdin
echo x >/dev/fd/1
