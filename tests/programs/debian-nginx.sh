#: package nginx curl apache2-utils
#: long
#: minutes 8
# Debian's nginx: files, ranges, compression, a proxy over a Unix socket, many clients, new workers, and its end.
ip link set lo up; printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
mkdir -p www /var/log/nginx /var/lib/nginx /run; echo hello >www/index.html; seq 100000 >www/big.txt
grep -q ^nobody /etc/passwd || echo 'nobody:x:65534:65534::/:/bin/sh' >>/etc/passwd
grep -q ^nogroup /etc/group || echo 'nogroup:x:65534:' >>/etc/group
chmod a+rx . /host; chmod -R a+rX www
cat >n.conf <<C
user nobody nogroup;
worker_processes 2;
pid $PWD/n.pid;
error_log $PWD/error.log notice;
events { worker_connections 256; }
http {
	access_log $PWD/access.log; sendfile on; tcp_nopush on; gzip on; gzip_types text/plain; types { text/plain txt; }
	upstream up { server unix:$PWD/up.sock; }
	server { listen 8080; listen [::1]:8080; root $PWD/www; location /p/ { proxy_pass http://up/; } }
	server { listen unix:$PWD/up.sock; return 200 "upstream \$uri\n"; }
}
C
nginx -q -t -c $PWD/n.conf; nginx -c $PWD/n.conf; echo "started $?"
curl -s http://127.0.0.1:8080/ 'http://[::1]:8080/' http://localhost:8080/
curl -s http://127.0.0.1:8080/big.txt | md5sum; curl -s --compressed http://127.0.0.1:8080/big.txt | md5sum
curl -s -r 5-20 http://127.0.0.1:8080/big.txt | tr '\n' ' '; curl -s http://127.0.0.1:8080/p/x
curl -sI http://127.0.0.1:8080/none | head -1
ab -q -n 1000 -c 50 http://127.0.0.1:8080/ | grep -E 'Failed|Complete'
ab -q -k -n 500 -c 20 http://127.0.0.1:8080/big.txt | grep -E 'Failed|Complete'
nginx -c $PWD/n.conf -s reload 2>/dev/null; until grep -q 'worker process .* exited with code 0' error.log; do sleep 0.1; done; curl -s http://127.0.0.1:8080/
mv access.log old.log; nginx -c $PWD/n.conf -s reopen 2>/dev/null; until [ -e access.log ]; do sleep 0.1; done
until curl -s http://127.0.0.1:8080/ >/dev/null; [ -s access.log ]; do sleep 0.1; done; echo reopened
nginx -c $PWD/n.conf -s quit 2>/dev/null; while [ -e n.pid ]; do sleep 0.1; done; curl -s http://127.0.0.1:8080/; echo "status $?"
grep -cE '\[(alert|emerg|crit)\]' error.log; grep -c 'exited with code 0' error.log; [ $(grep -c 'SIGIO' error.log) -lt 20 ] && echo "few SIGIO"
