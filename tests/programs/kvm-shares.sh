#: program kvm
#: hypervisor
kvm shares
