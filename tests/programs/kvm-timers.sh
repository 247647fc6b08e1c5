#: program kvm
#: hypervisor
kvm timers
