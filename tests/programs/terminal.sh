#: terminal
# A terminal: its name, its size, its modes, and what it makes of a newline.
tty | sed 's/[0-9]*$/N/'
stty size
stty -a | grep -o -E -e '-?(icanon|isig|opost|onlcr|echo)\b' | sort | tr '\n' ' '; echo
stty -onlcr -echo rows 10 cols 20; stty size; stty sane
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "all terminals"
stat -c %F "$(tty)"
echo to the terminal >/dev/tty
sleep 1000 & ps -o pid,tty | awk -v pid=$! '$1 == pid { print ($2 != "?") }'
{ kill $!; wait; } 2>/dev/null
