#: program kvm
#: hypervisor
kvm
