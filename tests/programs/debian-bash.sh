#: package bash
# Debian's bash: arrays, arithmetic, process substitution, coprocesses, traps, job control, here-strings.
exec bash -c '
declare -A ages=([ann]=30 [bob]=41)
for name in $(printf "%s\n" "${!ages[@]}" | sort); do echo "$name ${ages[$name]}"; done
echo $(( (1 << 40) + 7 % 4 )) "${RANDOM:+random}" "${0##*/}"
paste <(seq 3) <(seq 4 6)
mapfile -t lines <<<"one
two"
echo "${#lines[@]} ${lines[1]^^}"
coproc bc_like { while read -r a b; do echo $((a * b)); done; }
echo 6 7 >&"${bc_like[1]}"; read -r product <&"${bc_like[0]}"; echo "$product"
eval "exec ${bc_like[1]}>&-"; wait "$bc_like_PID"
trap "echo usr1" USR1; kill -USR1 $$; trap - USR1
(exit 5) & wait $!; echo "job $?"
set -o pipefail; false | true; echo "pipe $?"
( ulimit -n 20; ulimit -n )
printf "%(%F)T\n" 86400
[[ abc123 =~ ^([a-z]+)([0-9]+)$ ]] && echo "${BASH_REMATCH[2]}"
for ((i = 0; i < 100; i++)); do /bin/true & done; wait; echo done
trap "echo leaving" EXIT
exit 3
'
