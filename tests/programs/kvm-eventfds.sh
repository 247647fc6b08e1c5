#: program kvm
#: hypervisor
kvm eventfds
