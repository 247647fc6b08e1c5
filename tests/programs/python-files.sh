#: package python3 libpython3.13-testsuite
#: file python-tests.py
#: long
#: minutes 20
# Python's own tests of descriptors that are waited for, mapped files and temporary ones.
ip link set lo up
printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
python3 /tests/python-tests.py test_select
python3 /tests/python-tests.py test_mmap
python3 /tests/python-tests.py test_tempfile
