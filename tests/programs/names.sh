# uname, hostname, whoami, id, tty.
uname -s; whoami; id -u; id -g; tty
hostname
