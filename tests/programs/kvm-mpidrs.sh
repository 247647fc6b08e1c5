#: program kvm
#: hypervisor
kvm mpidrs
