#: program kvm
#: hypervisor
kvm left 2000
