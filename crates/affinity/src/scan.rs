//! The *before*: every look-up walks all vCPUs. Where several vCPUs have one affinity, the first is
//! found, as by the index.

use crate::{Affinity, TargetList, Vcpu};

/// The vCPU whose affinity is `cpu`; `vcpus` are the affinities in the order of the VM's table.
pub fn get(vcpus: &[Affinity], cpu: Affinity) -> Option<Vcpu> {
    vcpus
        .iter()
        .position(|vcpu| *vcpu == cpu)
        .map(|place| place as Vcpu)
}

/// The vCPUs that `list` names, a walk for each name.
pub fn targets(vcpus: &[Affinity], list: TargetList) -> impl Iterator<Item = Vcpu> + '_ {
    let named = (0..16).filter(move |member| list.members() >> member & 1 == 1);
    named.filter_map(move |member| get(vcpus, list.member(member)))
}
