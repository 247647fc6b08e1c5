#: program kvm
#: hypervisor
#: machine max-el2
kvm copies
