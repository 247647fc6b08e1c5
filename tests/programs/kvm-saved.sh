#: program kvm
#: hypervisor
kvm saved
