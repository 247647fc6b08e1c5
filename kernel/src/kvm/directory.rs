//! The directory of a machine's virtual CPUs by affinity: an index of crate `affinity`, or, with
//! `affinity=scan`, a walk over all of them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use affinity::{Affinity, Index, Lock, TargetList, scan};

use super::vcpu::Vcpu;
use crate::arch::{self, branch, branch::Key};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::{params, random};

/// Selects the policy.
pub fn init() {
    if params::choice("affinity", &[("index", false), ("scan", true)]) {
        branch::take_affinity_scan();
    }
}

/// All virtual CPUs of a machine, by index and by affinity.
pub struct Directory {
    vcpus: Vec<Arc<Vcpu>>,
    affinities: Vec<Affinity>,
    index: Index,
}

/// Holds what is published.
pub struct Slot<T>(Mutex<Option<Arc<T>>>);

/// A machine's directory.
pub type Publication = affinity::Publication<Slot<Directory>>;

/// A virtual CPU's handle on the directory.
pub type Reader = affinity::Reader<Arc<Directory>>;

/// A publication without a directory yet.
pub fn publication() -> Publication {
    Publication::new(Slot::new())
}

impl<T> Slot<T> {
    /// An empty slot.
    pub const fn new() -> Self {
        Slot(Mutex::new(None))
    }
}

impl<T> Lock<Option<Arc<T>>> for Slot<T> {
    fn with<R>(&self, f: impl FnOnce(&mut Option<Arc<T>>) -> R) -> R {
        f(&mut self.0.lock())
    }
}

impl Directory {
    /// Creates a directory of these virtual CPUs.
    pub fn new(of: &[Arc<Vcpu>]) -> Result<Arc<Self>> {
        let (mut vcpus, mut affinities) = (Vec::new(), Vec::new());
        let room = vcpus.try_reserve_exact(of.len());
        room.and_then(|()| affinities.try_reserve_exact(of.len()))
            .map_err(|_| Errno::ENOMEM)?;
        vcpus.extend_from_slice(of);
        affinities.extend(of.iter().map(|vcpu| vcpu.affinity()));
        let index = Index::new(&affinities, random::u64()).map_err(|_| Errno::ENOMEM)?;
        try_arc(Directory {
            vcpus,
            affinities,
            index,
        })
    }

    /// All virtual CPUs, by index.
    pub fn vcpus(&self) -> &[Arc<Vcpu>] {
        &self.vcpus
    }

    /// The index of the virtual CPU with this affinity.
    #[inline]
    pub fn place(&self, affinity: Affinity) -> Option<u16> {
        if arch::is_taken::<{ Key::AffinityScan as u32 }>() {
            return scan::get(&self.affinities, affinity);
        }
        self.index.get(affinity)
    }

    /// The virtual CPU with this affinity.
    pub fn find(&self, affinity: Affinity) -> Option<&Arc<Vcpu>> {
        self.vcpus.get(usize::from(self.place(affinity)?))
    }

    /// Calls `visit` for each virtual CPU that an SGI's list names.
    #[inline]
    pub fn each_target(&self, list: TargetList, mut visit: impl FnMut(&Vcpu)) {
        let mut at = |place: u16| {
            if let Some(vcpu) = self.vcpus.get(usize::from(place)) {
                visit(vcpu);
            }
        };
        if arch::is_taken::<{ Key::AffinityScan as u32 }>() {
            scan::targets(&self.affinities, list).for_each(at);
        } else {
            self.index.targets(list).for_each(&mut at);
        }
    }
}
