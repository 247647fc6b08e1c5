#: package stress-ng
#: file stressors
#: long
#: minutes 20
# Processes and threads under stress-ng.
sh /tests/stressors cpu fork clone futex pthread switch
