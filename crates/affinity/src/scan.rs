//! The *before*: every look-up walks the vCPUs. If several vCPUs have the same affinity, the first
//! is found, as by the index.

use crate::{Affinity, TargetList, Vcpu};

/// The vCPU with the affinity `cpu`; `vcpus` are the affinities in table order.
pub fn get(vcpus: &[Affinity], cpu: Affinity) -> Option<Vcpu> {
    vcpus
        .iter()
        .position(|vcpu| *vcpu == cpu)
        .map(|place| place as Vcpu)
}

/// The vCPUs that `list` names, in table order. The whole list takes one walk, which ends when the
/// last member is found, as in Linux before 6.7 (`vgic_v3_dispatch_sgi`).
pub fn targets(vcpus: &[Affinity], mut list: TargetList) -> impl Iterator<Item = Vcpu> + '_ {
    let mut walk = vcpus.iter().zip(0..);
    core::iter::from_fn(move || {
        if list.members() == 0 {
            return None;
        }
        let (&found, place) = walk.find(|&(&vcpu, _)| list.names(vcpu))?;
        list.remove(found);
        Some(place)
    })
}
