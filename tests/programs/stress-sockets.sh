#: package stress-ng
#: file stressors
#: long
#: minutes 20
# Sockets under stress-ng.
sh /tests/stressors sock udp
