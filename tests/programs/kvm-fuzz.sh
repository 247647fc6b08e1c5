#: program kvm-fuzz
#: hypervisor
kvm-fuzz 1 1
kvm-fuzz 2 1
