#: program kvm
#: hypervisor
kvm its
