#: program kvm-fuzz
#: hypervisor
kvm-fuzz 1 1
