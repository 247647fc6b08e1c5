# Handlers: caught, ignored, reset, at exit, inherited only when ignored.
trap 'echo caught USR1' USR1
kill -USR1 $$
trap '' USR2
kill -USR2 $$
echo "ignored USR2"
sh -c 'kill -USR2 $$; echo "child ignores it too"'
sh -c 'kill -USR1 $$; echo survived' 2>/dev/null
echo "child did not inherit the handler: $?"
trap - USR1
trap 'echo at exit' EXIT
exit 5
