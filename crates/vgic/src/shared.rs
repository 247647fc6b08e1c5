//! The interrupts that all virtual CPUs share.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

use affinity::Affinity;
use spin::Once;

use crate::distributor::{IDENTITY, REVISIONS};
use crate::lpi::Lpis;
use crate::{Bank, MAX, PRIVATE, tables};

/// There was not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// No virtual CPU.
pub(crate) const NOBODY: u16 = u16::MAX;

/// 32 shared interrupts.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) bank: Bank,
    /// The affinity that each interrupt is routed to, as in GICD_IROUTER.
    routes: [AtomicU64; 32],
    /// The place of the virtual CPU with that affinity.
    targets: [AtomicU16; 32],
    /// The place of the virtual CPU that has the interrupt in a list register, or had when it
    /// became active.
    holders: [AtomicU16; 32],
    /// The interrupts whose end is to be reported.
    reported: AtomicU32,
}

/// The distributor's state.
#[derive(Debug)]
pub struct Shared {
    groups: Box<[Group]>,
    enabled: AtomicBool,
    /// The revision of the controller as KVM counts them.
    revision: AtomicU32,
    /// GICR_PROPBASER, which all redistributors share: the LPI configuration table.
    pub(crate) properties: AtomicU64,
    /// Present once there is an ITS.
    lpis: Once<Lpis>,
}

impl Shared {
    /// The state of a controller with this many interrupts, including private ones: a multiple of
    /// 32, from 64 to 1024. All are routed to the virtual CPU with affinity 0, which is at the
    /// place `first` if it exists.
    pub fn new(interrupts: u32, first: Option<u16>) -> Result<Self, NoMemory> {
        let count = (interrupts.min(MAX + 4) / 32).saturating_sub(1) as usize;
        let mut groups = Vec::new();
        groups.try_reserve_exact(count).map_err(|_| NoMemory)?;
        groups.resize_with(count, || Group::new(first.unwrap_or(NOBODY)));
        Ok(Shared {
            groups: groups.into_boxed_slice(),
            enabled: AtomicBool::new(false),
            revision: AtomicU32::new(*REVISIONS.end()),
            properties: AtomicU64::new(0),
            lpis: Once::new(),
        })
    }

    /// The controller's identification (GICD_IIDR).
    pub(crate) fn identity(&self) -> u32 {
        IDENTITY | self.revision() << 12
    }

    pub(crate) fn revision(&self) -> u32 {
        self.revision.load(Relaxed)
    }

    pub(crate) fn set_revision(&self, revision: u32) {
        self.revision.store(revision, Relaxed);
    }

    /// The number of interrupts, including private ones.
    pub fn interrupts(&self) -> u32 {
        PRIVATE + 32 * self.groups.len() as u32
    }

    /// Whether the distributor forwards interrupts.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Sets whether the distributor forwards interrupts.
    pub fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, SeqCst);
    }

    /// The bank of 32 interrupts from number `32 × word` on; None for private interrupts and LPIs.
    pub fn bank(&self, word: u32) -> Option<&Bank> {
        let at = (word as usize).checked_sub(1)?;
        Some(&self.groups.get(at)?.bank)
    }

    pub(crate) fn group(&self, word: u32) -> Option<&Group> {
        let at = (word as usize).checked_sub(1)?;
        self.groups.get(at).or_else(|| self.lpis()?.group(word))
    }

    /// The LPIs, if there is an ITS.
    #[inline]
    pub(crate) fn lpis(&self) -> Option<&Lpis> {
        self.lpis.get()
    }

    /// Notes that an interrupt in a word became pending or active, if they are LPIs.
    #[inline]
    pub(crate) fn note(&self, word: u32) {
        if let Some(lpis) = self.lpis() {
            lpis.note(word);
        }
    }

    /// Adds LPIs, since there is an ITS now.
    pub fn add_lpis(&self) -> Result<(), NoMemory> {
        if self.lpis().is_none() {
            let lpis = Lpis::new()?;
            self.lpis.call_once(|| lpis);
            self.properties.store(tables::PROPERTIES_AT_RESET, Relaxed);
        }
        Ok(())
    }

    /// The groups of shared interrupts, and of LPIs that may be pending, with their first numbers.
    pub(crate) fn groups_to_fill(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups()
            .chain(self.lpis().into_iter().flat_map(Lpis::noted))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        (PRIVATE..).step_by(32).zip(&self.groups)
    }

    /// The place of the virtual CPU that an interrupt is routed to.
    pub fn target(&self, number: u32) -> Option<u16> {
        let group = self.group(number / 32)?;
        Some(group.targets[number as usize % 32].load(Relaxed)).filter(|place| *place != NOBODY)
    }

    /// The affinity that an interrupt is routed to, as in GICD_IROUTER.
    pub fn route(&self, number: u32) -> Option<Affinity> {
        let route = self.group(number / 32)?.routes[number as usize % 32].load(Relaxed);
        Some(Affinity::from_mpidr(route))
    }

    /// Routes an interrupt to the virtual CPU with the affinity `route`, which is at the place
    /// `target` if it exists.
    pub fn set_route(&self, number: u32, route: Affinity, target: Option<u16>) {
        if let Some(group) = self.group(number / 32) {
            let at = number as usize % 32;
            group.routes[at].store(route.to_mpidr(), Relaxed);
            group.targets[at].store(target.unwrap_or(NOBODY), SeqCst);
        }
    }

    /// Marks `bits` of 32 interrupts as made active by a write of the guest: their targets become
    /// their holders.
    pub(crate) fn hold(&self, word: u32, bits: u32) {
        if let Some(group) = self.group(word) {
            crate::bank::bits(bits).for_each(|bit| group.set_holder(bit, group.target(bit)));
        }
    }

    /// Makes [`Interface::ended`](crate::Interface::ended) report the interrupts for which
    /// `is_reported` holds, and no others.
    pub fn report_ends(&self, is_reported: impl Fn(u32) -> bool) {
        for (first, group) in self.groups() {
            let bit = |at| u32::from(is_reported(first + at)) << at;
            let bits = (0..32).fold(0, |bits, at| bits | bit(at));
            group.reported.store(bits, Relaxed);
        }
    }

    /// Makes it report one more interrupt.
    pub fn report_end(&self, number: u32) {
        if let Some(group) = self.group(number / 32) {
            group.reported.fetch_or(1 << (number % 32), Relaxed);
        }
    }

    /// The place of the virtual CPU that must refresh its interrupts now that this one is pending:
    /// the one that has it in a list register, or else the one that it is routed to.
    #[inline]
    pub fn due(&self, number: u32) -> Option<u16> {
        let (group, at) = (self.group(number / 32)?, number % 32);
        let (due, listed) = (group.bank.due(), group.bank.listed.load(SeqCst));
        if due >> at & 1 == 0 {
            return None;
        }
        let place = match listed >> at & 1 {
            0 => group.target(at),
            _ => group.holder(at),
        };
        Some(place).filter(|place| *place != NOBODY)
    }

    /// The places of the virtual CPUs that must refresh their interrupts after a guest changed this
    /// one: the one that it is routed to, and the one that has it in a list register, whose guest
    /// might otherwise end it without an exit.
    pub fn concerned(&self, number: u32) -> impl Iterator<Item = u16> + use<> {
        let holder = self.group(number / 32).and_then(|group| {
            let at = number % 32;
            let is_listed = group.bank.listed.load(SeqCst) >> at & 1 != 0;
            is_listed.then(|| group.holder(at))
        });
        let holder = holder.filter(|place| *place != NOBODY);
        self.target(number).into_iter().chain(holder)
    }

    /// Whether some interrupt could be given to the virtual CPU at this place now.
    pub fn has_for(&self, place: u16) -> bool {
        self.is_enabled()
            && self.groups_to_fill().any(|(_, group)| {
                crate::bank::bits(group.bank.deliverable()).any(|bit| group.target(bit) == place)
            })
    }
}

impl Group {
    pub(crate) fn is_reported(&self, bit: u32) -> bool {
        self.reported.load(Relaxed) >> bit & 1 != 0
    }

    /// Interrupts that are edge-triggered until the guest configures them, as in KVM; all are
    /// routed to the virtual CPU at this place.
    pub(crate) fn new(target: u16) -> Self {
        Group {
            bank: Bank::new(u32::MAX, 0),
            routes: Default::default(),
            targets: core::array::from_fn(|_| AtomicU16::new(target)),
            holders: core::array::from_fn(|_| AtomicU16::new(NOBODY)),
            reported: AtomicU32::new(0),
        }
    }

    pub(crate) fn set_target(&self, bit: u32, place: u16) {
        self.targets[bit as usize].store(place, SeqCst);
    }

    pub(crate) fn target(&self, bit: u32) -> u16 {
        self.targets[bit as usize].load(Relaxed)
    }

    pub(crate) fn holder(&self, bit: u32) -> u16 {
        self.holders[bit as usize].load(Relaxed)
    }

    pub(crate) fn set_holder(&self, bit: u32, place: u16) {
        self.holders[bit as usize].store(place, Relaxed);
    }
}
