#: program kvm
#: hypervisor
kvm modes
