#: program ranges
#: minutes 30
#: long
ranges pairs
ranges root
