#: package tmux vim-tiny ncurses-base procps
#: long
#: minutes 5
# Debian's tmux with shells, vim and top in its panes; nothing is told before it can be seen.
export TERM=xterm LANG=C.UTF-8 HOME=$PWD PS1='$ '
chmod 1777 /tmp
screen() { tmux capture-pane -p -t "$1"; }
seen() { until screen "$1" | grep -q "$2"; do sleep 0.2; done; }
tmux -f /dev/null new-session -d -s a -x 80 -y 24 'exec sh'
tmux send-keys -t a 'stty size; echo $((6 * 7)) in tmux; tty >/dev/null && echo a terminal' Enter; seen a '^a terminal'
screen a | grep -E '^(24 80|42 in tmux|a terminal)'
tmux split-window -t a -h 'exec sh'; tmux list-panes -t a -F '#{pane_index} #{pane_width}x#{pane_height}'
tmux send-keys -t a.1 'vim.tiny -u NONE file' Enter; seen a.1 '^~'; tmux send-keys -t a.1 'ihello' Escape; tmux send-keys -t a.1 ':wq' Enter
until grep -q hello file 2>/dev/null; do sleep 0.2; done; cat file
tmux resize-pane -t a.0 -x 20; tmux send-keys -t a.0 'clear; stty size' Enter; seen a.0 '^24 20'; echo resized
tmux new-window -t a 'exec top'; seen a:1 PID; screen a:1 | grep -c '^MiB Mem'; tmux list-windows -t a -F '#{window_index} #{pane_current_command}'
tmux send-keys -t a:0.0 'sleep 1000' Enter; until [ "$(tmux display -p -t a:0.0 '#{pane_current_command}')" = sleep ]; do sleep 0.2; done
tmux send-keys -t a:0.0 C-z; seen a:0.0 Stopped; tmux send-keys -t a:0.0 'kill %1; clear; wait; echo done $?' Enter; seen a:0.0 'done'; echo stopped and ended
tmux pipe-pane -t a:0.0 'cat >piped'; tmux send-keys -t a:0.0 'echo x''yz' Enter; until grep -q xyz piped; do sleep 0.2; done; echo piped
tmux send-keys -t a:0.1 'exit' Enter; until [ "$(tmux list-panes -t a:0 | wc -l)" = 1 ]; do sleep 0.2; done; echo one pane
tmux kill-server; echo "status $?"; tmux ls 2>&1 | sed 's/ on .*//'
printf 'b\na\nc\n' >letters; vim.tiny -u NONE -es -c '%!sort' -c '$r !echo shell' -c 'w sorted' -c 'q!' letters; cat sorted
