#: program abi
# As Debian has them.
echo 1 >/proc/sys/fs/protected_fifos
echo 2 >/proc/sys/fs/protected_regular
abi privileges
