//! The guest addresses of the controller's registers, and accesses to them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;

use affinity::Affinity;
use vgic::redistributor::Identity;
use vgic::{Access, Bank, Effect, Shared, distributor, redistributor};

use super::super::abort::Access as Trapped;
use super::super::directory::Directory;
use super::super::vcpu::{State, Vcpu};
use super::super::vm::Machine;

/// A region of consecutive redistributors.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The first one's address.
    pub base: u64,
    /// The number of redistributors that fit; 0 means as many as there are virtual CPUs.
    pub count: u64,
}

/// The redistributors in a region, and the indices of their virtual CPUs.
pub struct Row {
    /// The first one's address.
    pub base: u64,
    /// The indices of the vCPUs that they belong to.
    pub places: Range<u64>,
    /// Whether another row follows immediately.
    pub goes_on: bool,
}

impl Row {
    /// The address after the last one.
    pub fn behind(&self) -> Option<u64> {
        let len = (self.places.end - self.places.start) * redistributor::LEN;
        self.base.checked_add(len)
    }

    /// Whether no redistributor follows the one of the vCPU at index `place` (GICR_TYPER.Last).
    pub fn is_last(&self, place: u64) -> bool {
        self.places.contains(&place) && place + 1 == self.places.end && !self.goes_on
    }
}

/// The addresses of the distributor and of all redistributors.
pub struct Frames {
    distributor: u64,
    /// Ordered by address; none is empty.
    rows: Vec<Row>,
}

/// The frame at an address.
#[derive(Clone, Copy)]
pub enum Frame {
    /// The distributor.
    Distributor,
    /// The redistributor of the virtual CPU at index `place`.
    Redistributor { place: u16, last: bool },
}

impl Frame {
    /// Whether an access must read the guest's memory. Such accesses are performed outside the
    /// guest's context.
    #[inline]
    pub fn needs_memory(&self, shared: &Shared, access: &Access) -> bool {
        matches!(self, Frame::Redistributor { .. }) && redistributor::is_of_lpis(shared, access)
    }
}

impl Frames {
    /// Frames with these rows, ordered by address; none is empty.
    pub fn new(distributor: u64, rows: Vec<Row>) -> Self {
        Frames { distributor, rows }
    }

    /// The frame at an address, and the offset in it.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(Frame, u32)> {
        let offset = address.wrapping_sub(self.distributor);
        if offset < distributor::LEN {
            return Some((Frame::Distributor, offset as u32));
        }
        let next = self.rows.partition_point(|row| row.base <= address);
        let row = self.rows.get(next.checked_sub(1)?)?;
        let offset = address - row.base;
        let place = row.places.start + offset / redistributor::LEN;
        let frame = Frame::Redistributor {
            place: place as u16,
            last: row.is_last(place),
        };
        (place < row.places.end).then_some((frame, (offset % redistributor::LEN) as u32))
    }
}

/// Performs a guest's access to a frame. Returns the value read, and notifies the vCPUs that must
/// refresh their interrupts.
pub fn access(frame: Frame, shared: &Shared, directory: &Directory, access: &Access) -> u64 {
    let (value, effect, whose) = match frame {
        Frame::Distributor => {
            let find = |affinity: Affinity| directory.place(affinity);
            let (value, effect) = distributor::access(shared, access, find);
            (value, effect, None)
        }
        Frame::Redistributor { place, last } => {
            let Some(vcpu) = directory.vcpus().get(usize::from(place)) else {
                return 0;
            };
            let identity = Identity {
                affinity: vcpu.affinity(),
                number: vcpu.id as u16,
                last,
            };
            let (value, effect) = redistributor::access(&vcpu.private, shared, identity, access);
            (value, effect, Some(vcpu))
        }
    };
    notify(effect, shared, directory.vcpus(), whose.map(|vcpu| &**vcpu));
    value
}

/// Whether an access concerns the state of interrupts that CPUs other than `own` may have in their
/// list registers, where it can be neither changed nor read.
pub fn is_held_elsewhere(
    frame: &Frame,
    shared: &Shared,
    directory: &Directory,
    own: &Vcpu,
    access: &Access,
) -> bool {
    let bits = access.write.map_or(u32::MAX, |bits| bits as u32);
    let word = access.state_word();
    let listed = |bank: &Bank| bank.listed.load(SeqCst) & bits != 0;
    match *frame {
        Frame::Distributor => shared.bank(word).is_some_and(listed),
        Frame::Redistributor { place, .. } => {
            let whose = directory.vcpus().get(usize::from(place));
            whose.is_some_and(|vcpu| {
                // A vCPU that does not run now may fill its list registers meanwhile.
                let changes = access.write.is_some();
                !core::ptr::eq(&**vcpu, own) && (changes || listed(&vcpu.private.bank))
            })
        }
    }
}

/// Performs an access of a virtual CPU that is not in its guest, while no other is in its guest.
pub fn access_alone(machine: &Machine, at: &Trapped, state: &mut State) {
    let registers = &mut state.guest.registers;
    let parts = machine
        .vgic()
        .and_then(|vgic| vgic.shared().zip(vgic.frames()));
    if let Some((shared, frames)) = parts
        && let Some(directory) = state.reader.get(&machine.directory)
        && let Some((frame, offset)) = frames.find(at.address())
        && let Some(access_at) = at.at(offset, registers)
    {
        let value = access(frame, shared, directory, &access_at);
        at.complete(value, registers);
    }
}

/// Notifies the virtual CPUs whose interrupts an access changes; `whose` is the owner of the
/// redistributor that was accessed. Most accesses affect none.
#[inline]
pub fn notify(effect: Effect, shared: &Shared, vcpus: &[Arc<Vcpu>], whose: Option<&Vcpu>) {
    if !matches!(effect, Effect::Nothing) {
        notify_some(effect, shared, vcpus, whose);
    }
}

fn notify_some(effect: Effect, shared: &Shared, vcpus: &[Arc<Vcpu>], whose: Option<&Vcpu>) {
    match effect {
        Effect::Nothing => {}
        Effect::Private => whose.into_iter().for_each(|vcpu| vcpu.request_refresh()),
        Effect::Shared { word, bits } => {
            let numbers = (0..32).filter(|bit| bits >> bit & 1 != 0);
            let places = numbers.flat_map(|bit| shared.concerned(32 * word + bit));
            places
                .filter_map(|place| vcpus.get(usize::from(place)))
                .for_each(|vcpu| vcpu.request_refresh());
        }
        Effect::Everyone => vcpus.iter().for_each(|vcpu| vcpu.request_refresh()),
    }
}
