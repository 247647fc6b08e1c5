#: program kvm
#: hypervisor
kvm sgis
