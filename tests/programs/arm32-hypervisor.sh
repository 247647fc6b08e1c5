#: only arm64
#: hypervisor
#: program32 arm32
arm32 hypervisor
