//! LPIs: message-signalled interrupts (Arm IHI 0069, 5.1). They are edge-triggered, of group 1 and
//! without an active state, and are kept like shared interrupts, in groups of 32 that are created
//! with their first interrupt.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};

use spin::Once;

use crate::Shared;
use crate::shared::{Group, NOBODY, NoMemory};

/// The numbers of LPIs; they have 16 bits.
pub const NUMBERS: Range<u32> = 8192..65536;
/// The index of the first group.
const FIRST: u32 = NUMBERS.start / 32;
const GROUPS: usize = (NUMBERS.end - NUMBERS.start) as usize / 32;

/// Fields of a byte in the guest's configuration table.
const PRIORITY: u8 = 0xfc;
const ENABLED: u8 = 1;

/// All LPIs of a machine.
#[derive(Debug)]
pub(crate) struct Lpis {
    /// Each is a slice of one element, because only slices can be allocated fallibly.
    groups: Box<[Once<Box<[Group]>>]>,
    /// A bit for each group in which an LPI may be pending or active: a virtual CPU only examines
    /// these.
    noted: [AtomicU32; GROUPS / 32],
}

impl Lpis {
    pub(crate) fn new() -> Result<Self, NoMemory> {
        let mut groups = Vec::new();
        groups.try_reserve_exact(GROUPS).map_err(|_| NoMemory)?;
        groups.resize_with(GROUPS, Once::new);
        Ok(Lpis {
            groups: groups.into_boxed_slice(),
            noted: [const { AtomicU32::new(0) }; GROUPS / 32],
        })
    }

    /// The group of 32 LPIs from number `32 × word` on, if one of them was ever used.
    pub(crate) fn group(&self, word: u32) -> Option<&Group> {
        let at = word.checked_sub(FIRST)? as usize;
        self.groups.get(at)?.get()?.first()
    }

    /// The group of an LPI, which is created if it does not exist.
    pub(crate) fn make(&self, number: u32) -> Result<&Group, NoMemory> {
        let at = (number / 32).checked_sub(FIRST).ok_or(NoMemory)? as usize;
        let group = self.groups.get(at).ok_or(NoMemory)?;
        let group = group.try_call_once(|| {
            let mut one = Vec::new();
            one.try_reserve_exact(1).map_err(|_| NoMemory)?;
            one.push(Group::new(NOBODY));
            Ok(one.into_boxed_slice())
        })?;
        group.first().ok_or(NoMemory)
    }

    /// Notes that an LPI in a group may be pending or active.
    #[inline]
    pub(crate) fn note(&self, word: u32) {
        if let Some(at) = word.checked_sub(FIRST)
            && let Some(noted) = self.noted.get(at as usize / 32)
        {
            noted.fetch_or(1 << (at % 32), SeqCst);
        }
    }

    /// The groups in which an LPI may be pending or active, with their first numbers. Idle groups
    /// are removed from the notes.
    pub(crate) fn noted(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.noted
            .iter()
            .zip((FIRST..).step_by(32))
            .flat_map(move |(noted, first)| {
                crate::bank::bits(noted.load(Relaxed)).filter_map(move |bit| {
                    let group = self.group(first + bit)?;
                    let is_idle = || group.bank.pending() | group.bank.active.load(Relaxed) == 0;
                    if is_idle() {
                        noted.fetch_and(!(1 << bit), SeqCst);
                        // If one became pending or active meanwhile, note the group again.
                        if !is_idle() {
                            self.note(first + bit);
                        }
                    }
                    Some((32 * (first + bit), group))
                })
            })
    }

    /// All existing groups, with their first numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups
            .iter()
            .zip((NUMBERS.start..).step_by(32))
            .filter_map(|(group, first)| Some((first, group.get()?.first()?)))
    }
}

impl Shared {
    /// Whether there are LPIs.
    #[inline]
    pub fn has_lpis(&self) -> bool {
        self.lpis().is_some()
    }

    /// Adds an LPI that an ITS may send from now on, to the virtual CPU at the place `target` if
    /// any.
    pub fn add_lpi(&self, number: u32, target: Option<u16>) -> Result<(), NoMemory> {
        let group = self.lpis().ok_or(NoMemory)?.make(number)?;
        group.bank.latch.fetch_and(!bit(number), SeqCst);
        group.bank.active.fetch_and(!bit(number), SeqCst);
        group.set_target(number % 32, target.unwrap_or(NOBODY));
        Ok(())
    }

    /// Removes an LPI that nobody sends any more.
    pub fn remove_lpi(&self, number: u32) {
        if let Some(group) = self.group_of(number) {
            group.set_target(number % 32, NOBODY);
            group.bank.enabled.fetch_and(!bit(number), SeqCst);
            group.bank.latch.fetch_and(!bit(number), SeqCst);
        }
    }

    /// Reroutes an LPI to another virtual CPU. Returns the place of the virtual CPU that must now
    /// refresh its interrupts, if any.
    pub fn move_lpi(&self, number: u32, target: Option<u16>) -> Option<u16> {
        let group = self.group_of(number)?;
        group.set_target(number % 32, target.unwrap_or(NOBODY));
        (group.bank.deliverable() & bit(number) != 0)
            .then_some(target)
            .flatten()
    }

    /// Sets an LPI's priority and enable bit from its byte in the guest's table. Returns the place
    /// of the virtual CPU that must now refresh its interrupts, if any.
    pub fn configure_lpi(&self, number: u32, properties: u8) -> Option<u16> {
        let group = self.group_of(number)?;
        let (word, byte) = (number % 32 / 4, number % 4 * 8);
        let priority = u32::from(properties & PRIORITY) << byte;
        group
            .bank
            .set_priorities(word as usize, priority, 0xff << byte);
        if properties & ENABLED == 0 {
            group.bank.enabled.fetch_and(!bit(number), SeqCst);
            return None;
        }
        group.bank.enabled.fetch_or(bit(number), SeqCst);
        self.due(number)
    }

    /// Makes an LPI pending. Returns the place of the virtual CPU that must now refresh its
    /// interrupts, if any.
    #[inline]
    pub fn raise_lpi(&self, number: u32) -> Option<u16> {
        let group = self.group_of(number)?;
        group.bank.latch.fetch_or(bit(number), SeqCst);
        self.note(number / 32);
        self.due(number)
    }

    /// Makes an LPI no longer pending.
    pub fn clear_lpi(&self, number: u32) {
        if let Some(group) = self.group_of(number) {
            group.bank.latch.fetch_and(!bit(number), SeqCst);
        }
    }

    /// All LPIs routed to the virtual CPU at this place, and whether each is pending.
    pub fn lpis_of(&self, place: u16) -> impl Iterator<Item = (u32, bool)> {
        let groups = self.lpis().into_iter().flat_map(Lpis::all);
        groups.flat_map(move |(first, group)| {
            (0..32)
                .filter(move |at| group.target(*at) == place)
                .map(move |at| (first + at, group.bank.pending() & 1 << at != 0))
        })
    }

    fn group_of(&self, number: u32) -> Option<&Group> {
        self.lpis()?.group(number / 32)
    }
}

fn bit(number: u32) -> u32 {
    1 << (number % 32)
}
