#: program kvm
#: hypervisor
kvm coalesced
