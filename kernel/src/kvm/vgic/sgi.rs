//! SGIs that guests send: the trapped write of ICC_SGI1R_EL1 and its siblings.

use affinity::{Destination, Sgi, SgiRegister};

use super::super::directory::Directory;
use super::super::vcpu::Vcpu;

/// Sends the SGIs of `value`, which `sender` wrote to `register`.
#[inline]
pub fn send_sgi(directory: &Directory, sender: &Vcpu, register: SgiRegister, value: u64) {
    let sgi = Sgi::decode(value);
    let group1 = register.may_raise(true);
    let deliver = |vcpu: &Vcpu| {
        if vcpu.private.send(sgi.intid, group1) && !core::ptr::eq(vcpu, sender) {
            vcpu.notify();
        }
    };
    match sgi.destination {
        Destination::List(list) => directory.each_target(list, deliver),
        Destination::AllButSelf => directory
            .vcpus()
            .iter()
            .filter(|vcpu| !core::ptr::eq(&***vcpu, sender))
            .for_each(|vcpu| deliver(vcpu)),
    }
}
