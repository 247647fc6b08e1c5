# Exit statuses of commands, of what is not found, of what is not executable, and of a pipe's last member.
true; echo "true $?"
false; echo "false $?"
(exit 42); echo "subshell $?"
nosuchcommand 2>/dev/null; echo "not found $?"
echo text >file; ./file 2>/dev/null; echo "not executable $?"
/ 2>/dev/null; echo "a folder $?"
false | true; echo "pipe $?"
! true; echo "negated $?"
