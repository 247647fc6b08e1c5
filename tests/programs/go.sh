#: go workers
# A static Go program: its runtime's threads, signals and memory.
workers
