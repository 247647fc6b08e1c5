#: go web
#: minutes 3
# A static Go program that serves HTTP to itself and to a child.
ip link set lo up
web
