#: program kvm
#: hypervisor
kvm calls
