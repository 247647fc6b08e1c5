//! The interrupts that all virtual CPUs share.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

use affinity::Affinity;
use spin::Once;

use crate::distributor::{IDENTITY, REVISIONS};
use crate::lpi::Lpis;
use crate::{Bank, MAX, PRIVATE, tables};

/// There was no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// Nobody.
pub(crate) const NOBODY: u16 = u16::MAX;

/// 32 shared interrupts.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) bank: Bank,
    /// The affinity that each interrupt is routed to, as GICD_IROUTER has it.
    routes: [AtomicU64; 32],
    /// The place of the virtual CPU with that affinity.
    targets: [AtomicU16; 32],
    /// The virtual CPU that has the interrupt in a list register, or had when it became active.
    holders: [AtomicU16; 32],
    /// The interrupts whose end by the guest is reported.
    reported: AtomicU32,
}

/// The distributor's state.
#[derive(Debug)]
pub struct Shared {
    groups: Box<[Group]>,
    enabled: AtomicBool,
    /// The revision of KVM's controller.
    revision: AtomicU32,
    /// GICR_PROPBASER, which all redistributors share: where LPIs are configured.
    pub(crate) properties: AtomicU64,
    /// There once there is an ITS.
    lpis: Once<Lpis>,
}

impl Shared {
    /// The state of a controller with this many interrupts, private ones included: a multiple of
    /// 32, at least 64, at most 1024. All of them go to the virtual CPU with affinity 0, in place
    /// `first` if there is one.
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

    /// How many interrupts there are, private ones included.
    pub fn interrupts(&self) -> u32 {
        PRIVATE + 32 * self.groups.len() as u32
    }

    /// Whether the distributor forwards interrupts.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Lets the distributor forward interrupts, or not.
    pub fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, SeqCst);
    }

    /// The bank of 32 interrupts that begins with number `32 × word`; none of the private ones, nor
    /// of LPIs.
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

    /// One of a word's became pending or active: if they are LPIs, that is noted.
    #[inline]
    pub(crate) fn note(&self, word: u32) {
        if let Some(lpis) = self.lpis() {
            lpis.note(word);
        }
    }

    /// There is an ITS: from now on there are LPIs.
    pub fn add_lpis(&self) -> Result<(), NoMemory> {
        if self.lpis().is_none() {
            let lpis = Lpis::new()?;
            self.lpis.call_once(|| lpis);
            self.properties.store(tables::PROPERTIES_AT_RESET, Relaxed);
        }
        Ok(())
    }

    /// Groups of shared interrupts and of LPIs that may be pending, with their first numbers.
    pub(crate) fn groups_to_fill(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups()
            .chain(self.lpis().into_iter().flat_map(Lpis::noted))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        (PRIVATE..).step_by(32).zip(&self.groups)
    }

    /// The place of the virtual CPU that an interrupt goes to.
    pub fn target(&self, number: u32) -> Option<u16> {
        let group = self.group(number / 32)?;
        Some(group.targets[number as usize % 32].load(Relaxed)).filter(|place| *place != NOBODY)
    }

    /// Where an interrupt goes, as GICD_IROUTER has it.
    pub fn route(&self, number: u32) -> Option<Affinity> {
        let route = self.group(number / 32)?.routes[number as usize % 32].load(Relaxed);
        Some(Affinity::from_mpidr(route))
    }

    /// Sends an interrupt elsewhere: to the virtual CPU with this affinity, which is in this place
    /// if there is one.
    pub fn set_route(&self, number: u32, route: Affinity, target: Option<u16>) {
        if let Some(group) = self.group(number / 32) {
            let at = number as usize % 32;
            group.routes[at].store(route.to_mpidr(), Relaxed);
            group.targets[at].store(target.unwrap_or(NOBODY), SeqCst);
        }
    }

    /// Marks `bits` of 32 interrupts as active by the guest's write alone: their holders are their
    /// targets.
    pub(crate) fn hold(&self, word: u32, bits: u32) {
        if let Some(group) = self.group(word) {
            crate::bank::bits(bits).for_each(|bit| group.set_holder(bit, group.target(bit)));
        }
    }

    /// [`Interface::ended`](crate::Interface::ended) is to report the interrupts for which
    /// `is_reported` holds, and of no others.
    pub fn report_ends(&self, is_reported: impl Fn(u32) -> bool) {
        for (first, group) in self.groups() {
            let bit = |at| u32::from(is_reported(first + at)) << at;
            let bits = (0..32).fold(0, |bits, at| bits | bit(at));
            group.reported.store(bits, Relaxed);
        }
    }

    /// Has the end of one more interrupt reported.
    pub fn report_end(&self, number: u32) {
        if let Some(group) = self.group(number / 32) {
            group.reported.fetch_or(1 << (number % 32), Relaxed);
        }
    }

    /// The place of the virtual CPU that has to look, now that an interrupt became pending: the one
    /// that has it in a list register, else the one that it is routed to.
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

    /// The places of the virtual CPUs that have to look, now that a guest changed an interrupt: the
    /// one that it is routed to, and the one that has it in a list register, whose guest may end it
    /// there without an exit.
    pub fn concerned(&self, number: u32) -> impl Iterator<Item = u16> + use<> {
        let holder = self.group(number / 32).and_then(|group| {
            let at = number % 32;
            let is_listed = group.bank.listed.load(SeqCst) >> at & 1 != 0;
            is_listed.then(|| group.holder(at))
        });
        let holder = holder.filter(|place| *place != NOBODY);
        self.target(number).into_iter().chain(holder)
    }

    /// Whether any could be given to the virtual CPU in this place now.
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

    /// Edge-triggered until the guest says otherwise, as in KVM; all go to the virtual CPU in this
    /// place.
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
