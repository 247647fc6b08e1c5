#: program kvm
#: hypervisor
kvm debug
