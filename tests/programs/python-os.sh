#: package python3 libpython3.13-testsuite
#: file python-tests.py
#: long
#: minutes 20
# Python's own tests of what os gives of the system. Those of timerfd take a delay of a millisecond for a failure; that of affinity
# needs more than one CPU.
ip link set lo up
printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
python3 /tests/python-tests.py test_os -i TimerfdTests -i test_process_cpu_count_affinity
