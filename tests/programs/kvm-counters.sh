#: program kvm
#: hypervisor
kvm counters
