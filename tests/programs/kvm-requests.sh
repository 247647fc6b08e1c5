#: program kvm
#: hypervisor
kvm requests
