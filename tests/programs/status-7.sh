# The shell's exit status is the case's.
exit 7
