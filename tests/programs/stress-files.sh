#: package stress-ng
#: file stressors
#: long
#: minutes 20
# Files and what waits for them under stress-ng.
sh /tests/stressors pipe poll epoll eventfd dentry rename get
