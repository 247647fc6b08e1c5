#: program kvm
#: hypervisor
kvm sizes
