#: program mmapstress
# Twenty processes map, write, grow and unmap one file at random.
mmapstress 20 100
