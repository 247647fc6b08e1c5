#: program kvm
#: hypervisor
kvm descriptors
