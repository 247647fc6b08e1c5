#: program kvm
#: hypervisor
#: long
kvm left 10000
