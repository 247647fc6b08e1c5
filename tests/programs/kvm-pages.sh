#: program kvm
#: hypervisor
kvm pages
