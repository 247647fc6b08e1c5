# uname, hostname, whoami, id, tty.
uname -s; uname -m; whoami; id -u; id -g; tty
hostname
