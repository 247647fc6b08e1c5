# Many and long arguments, and too many.
set -- $(seq 1 5000); echo $#
sh -c 'echo $# ${4999}' name "$@"
ls $(seq 1 20) 2>/dev/null | wc -l
long=$(head -c 100000 /dev/zero | tr '\0' a); sh -c 'echo ${#1}' x "$long"
longer=$long$long; /bin/true "$longer" 2>/dev/null; echo "too long an argument: $?"
