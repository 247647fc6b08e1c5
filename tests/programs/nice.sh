# Priorities are kept and inherited.
nice; nice -n 5 nice; nice -n 5 nice -n 3 nice
nice -n 100 nice
renice -n 7 -p $$ >/dev/null && nice
