#: program kvm
#: hypervisor
kvm vmids
