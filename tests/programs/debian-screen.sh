#: package screen
#: minutes 5
# Debian's screen, whose window is a pseudo-terminal in packet mode; nothing is told before it can be seen.
export TERM=vt100 LANG=C.UTF-8 HOME=$PWD SCREENDIR=$PWD/screens
mkdir -m 700 screens
screen -d -m -S a sh -c 'stty size; echo $((6 * 7)) in screen; tty >/dev/null && echo a terminal; exec cat'
seen() { until screen -S a -X hardcopy "$PWD/shot" && grep -q "$1" shot; do sleep 0.2; done; }
seen '^a terminal'; grep -E '^(24 80|42 in screen|a terminal)' shot
screen -S a -X stuff "typed$(printf '\r')"; seen '^typed'; grep -c '^typed' shot
screen -ls | grep -c '\.a.*Detached'
screen -S a -X quit; while screen -ls | grep -q '\.a'; do sleep 0.2; done; echo gone
