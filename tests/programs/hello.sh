# The smallest thing: a message and a status.
echo hello
