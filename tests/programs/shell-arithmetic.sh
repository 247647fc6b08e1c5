# The shell alone: arithmetic, strings, functions, loops, case, arrays of words.
fib() { if [ $1 -lt 2 ]; then echo $1; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
fib 9
text=abcdef; echo ${#text} ${text#ab} ${text%ef} ${text/cd/XX} ${none:-default}
case $text in x*) echo no ;; a*f) echo yes ;; esac
for word in one 'two words' three; do printf '[%s]' "$word"; done; echo
i=0; while :; do i=$((i + 1)); [ $i -eq 3 ] && continue; [ $i -gt 5 ] && break; printf $i; done; echo
echo $((0xff & 0x0f)) $((1 << 20)) $((-7 / 2)) $((-7 % 3))
