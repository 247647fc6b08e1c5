#: program kvm
#: hypervisor
kvm caches
