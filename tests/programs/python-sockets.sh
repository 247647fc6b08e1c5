#: package python3 libpython3.13-testsuite
#: long
# Python's own tests of descriptors and headers beside messages, and of connections that do not wait.
ip link set lo up
printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
python3 -m test test_socket -m '*RFC3542*' -m '*SCMRights*' -m '*NonBlocking*' -m '*BasicUDP*' >log 2>&1
grep '^Result' log
