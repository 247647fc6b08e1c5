#: program kvm
#: hypervisor
#: machine cortex-a76-el2
kvm sizes
