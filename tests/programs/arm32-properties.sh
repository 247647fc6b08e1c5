#: only arm64
#: program32 arm32
arm32 properties
