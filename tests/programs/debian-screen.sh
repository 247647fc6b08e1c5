#: package screen
#: minutes 5
# Debian's screen, whose window is a pseudo-terminal in packet mode; nothing is told before it can be seen.
export TERM=vt100 LANG=C.UTF-8 HOME=$PWD SCREENDIR=$PWD/screens
mkdir -m 700 screens
screen -d -m -S a sh -c 'stty size; echo $((6 * 7)) in screen; tty >/dev/null && echo a terminal; exec cat'
# The file of a hardcopy comes a little after the command.
shot() { screen -S a -X hardcopy "$PWD/shot"; sleep 0.2; shot=$(cat shot 2>/dev/null); }
seen() { until shot; [ "$(echo "$shot" | grep -c "$1")" -ge "$2" ]; do :; done; }
seen '^a terminal' 1; echo "$shot" | grep -E '^(24 80|42 in screen|a terminal)'
screen -S a -X stuff "typed$(printf '\r')"; seen '^typed' 2; echo "$shot" | grep -c '^typed'
screen -ls | grep -c '\.a.*Detached'
screen -S a -X quit; while screen -ls | grep -q '\.a'; do sleep 0.2; done; echo gone
