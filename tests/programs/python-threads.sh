#: package python3 libpython3.13-testsuite
#: file python-tests.py
#: long
#: minutes 30
# Python's own tests of threads.
ip link set lo up
printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
python3 /tests/python-tests.py test_threading
