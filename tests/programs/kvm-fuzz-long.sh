#: program kvm-fuzz
#: hypervisor
#: long
kvm-fuzz 11 3
kvm-fuzz 12 3
