#: program kvm
#: hypervisor
kvm vcpus
