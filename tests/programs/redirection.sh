# Descriptors: duplicated, closed, swapped, read and written, appended, and noclobber.
exec 3>out; echo three >&3; exec 3>&-; cat out
echo closed 2>/dev/null >&3 || echo "bad descriptor"
(echo to stdout; echo to stderr >&2) 3>&1 1>&2 2>&3 | sed 's/^/swapped: /' 2>/dev/null
exec 4<>both; echo first >&4; echo second >&4; cat both; exec 4>&-
set -C; echo x >out 2>/dev/null || echo "not overwritten"; echo y >|out; cat out
{ echo a; echo b; } >group; cat group
