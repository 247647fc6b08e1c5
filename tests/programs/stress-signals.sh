#: package stress-ng
#: file stressors
#: long
#: minutes 20
# Signals and timers under stress-ng.
sh /tests/stressors signal sigq timer
