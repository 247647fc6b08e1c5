#: program kvm-fuzz
#: hypervisor
#: long
kvm-fuzz 11 2
kvm-fuzz 12 2
