#: program kvm
#: hypervisor
#: machine neoverse-n1-el2
kvm idregs
