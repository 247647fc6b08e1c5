//! Chooses the content of the hardware's list registers, and takes it back.

use core::sync::atomic::Ordering::*;

use crate::bank::bits;
use crate::{Bank, ListRegister, PRIVATE, Private, Shared};

/// The maximum number of list registers.
const MOST: usize = 16;

/// The list registers of one virtual CPU. Only its own thread uses them.
#[derive(Clone, Debug)]
pub struct Interface {
    list: [ListRegister; MOST],
    /// The number of registers that hold an interrupt; they come first.
    used: usize,
    /// The number of registers.
    capacity: usize,
    /// The place of the virtual CPU.
    place: u16,
    /// Whether shared interrupts have to be examined.
    shared_due: bool,
    /// Whether some pending interrupts, and some active ones, found no room.
    waiting: bool,
    spilled: bool,
    /// Interrupts that the guest has ended and whose end is to be reported: the first `ends`.
    ended: [u32; MOST],
    ends: usize,
}

impl Interface {
    /// The interface of the virtual CPU at this place, on hardware with `capacity` list registers.
    pub fn new(place: u16, capacity: usize) -> Self {
        Interface {
            list: [ListRegister::EMPTY; MOST],
            used: 0,
            capacity: capacity.clamp(1, MOST),
            place,
            shared_due: true,
            waiting: false,
            spilled: false,
            ended: [0; MOST],
            ends: 0,
        }
    }

    /// Takes one of the interrupts chosen by [`Shared::report_ends`] that the guest has ended.
    #[inline]
    pub fn ended(&mut self) -> Option<u32> {
        self.ends = self.ends.checked_sub(1)?;
        self.ended.get(self.ends).copied()
    }

    /// The registers in use.
    #[inline]
    pub fn registers(&self) -> &[ListRegister] {
        &self.list[..self.used.min(MOST)]
    }

    /// The registers in use, to be filled with the hardware's values.
    #[inline]
    pub fn registers_mut(&mut self) -> &mut [ListRegister] {
        &mut self.list[..self.used.min(MOST)]
    }

    /// Whether more interrupts are pending than fit, so that the hardware must signal when there is
    /// room.
    #[inline]
    pub fn waits_for_room(&self) -> bool {
        self.waiting
    }

    /// Whether some active interrupts have no register, so that the hardware must signal when the
    /// guest ends one.
    #[inline]
    pub fn has_spilled(&self) -> bool {
        self.spilled
    }

    /// Whether no register is in use, and no active interrupt lacks one.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0 && !self.spilled
    }

    /// Takes the state back from the registers, so that the banks have all of it. Calls `notify`
    /// with the place of a virtual CPU to which a shared interrupt was rerouted meanwhile.
    pub fn fold(&mut self, private: &Private, shared: &Shared, mut notify: impl FnMut(u16)) {
        for at in 0..self.used.min(MOST) {
            let entry = self.list[at];
            let (word, bit) = (entry.number() / 32, 1 << (entry.number() % 32));
            let bank = match word {
                0 => Some(&private.bank),
                _ => {
                    self.shared_due = true;
                    let group = shared.group(word);
                    if entry.is_empty()
                        && entry.reports_end()
                        && group.is_some_and(|group| group.is_reported(entry.number() % 32))
                        && let Some(place) = self.ended.get_mut(self.ends)
                    {
                        *place = entry.number();
                        self.ends += 1;
                    }
                    group.map(|group| &group.bank)
                }
            };
            if let Some(bank) = bank {
                fold(bank, bit, entry);
                if !entry.is_empty() {
                    shared.note(word);
                }
                let target = shared.target(entry.number());
                if let Some(elsewhere) = target.filter(|target| *target != self.place)
                    && bank.deliverable() & bit != 0
                {
                    notify(elsewhere);
                }
            }
        }
        self.used = 0;
    }

    /// Accepts interrupts that others sent. [`Interface::fill`] then also examines the shared ones
    /// if a sender has asked for that.
    #[inline]
    pub fn accept(&mut self, private: &Private) {
        self.shared_due |= private.accept();
    }

    /// Chooses the content of the registers, after all state was taken back. `hardware` are the
    /// private interrupts that are bound to physical ones.
    #[inline]
    pub fn fill(&mut self, private: &Private, shared: &Shared, hardware: u32) {
        self.accept(private);
        if self.shared_due || !private.bank.is_quiet() {
            self.choose(private, shared, hardware);
        } else {
            (self.waiting, self.spilled, self.used) = (false, false, 0);
        }
    }

    #[inline(never)]
    fn choose(&mut self, private: &Private, shared: &Shared, hardware: u32) {
        (self.used, self.waiting, self.spilled) = (0, false, false);
        let enabled = shared.is_enabled();
        let bank = &private.bank;
        for bit in bits(bank.active.load(Relaxed)) {
            self.add(candidate(bank, bit, bit, true, hardware));
        }
        if enabled {
            for bit in bits(bank.deliverable()) {
                self.add(candidate(bank, bit, bit, false, hardware));
            }
        }
        if self.shared_due {
            for (first, group) in shared.groups_to_fill() {
                let bank = &group.bank;
                for bit in bits(bank.active.load(Relaxed)) {
                    if group.holder(bit) == self.place {
                        self.add(candidate(bank, bit, first + bit, true, 0));
                    }
                }
                let pending = if enabled { bank.deliverable() } else { 0 };
                for bit in bits(pending) {
                    if group.target(bit) == self.place {
                        self.add(candidate(bank, bit, first + bit, false, 0));
                    }
                }
            }
        }
        self.shared_due = self.waiting || self.spilled;
        let chosen = core::mem::take(&mut self.used).min(MOST);
        for at in 0..chosen {
            let entry = self.list[at];
            if self.take(entry, private, shared) {
                self.list[self.used] = entry;
                self.used += 1;
            }
        }
    }

    /// Adds an interrupt to those chosen so far, in the order of [`key`]; if there is no room, the
    /// last one is dropped.
    fn add(&mut self, entry: ListRegister) {
        let chosen = &mut self.list[..self.used.min(MOST)];
        let at = chosen.partition_point(|other| key(*other) <= key(entry));
        let lost = if chosen.len() < self.capacity {
            self.used += 1;
            None
        } else {
            chosen[at..].last().or(Some(&entry)).copied()
        };
        let chosen = &mut self.list[..self.used.min(MOST)];
        if at < chosen.len() {
            chosen.copy_within(at..chosen.len() - 1, at + 1);
            chosen[at] = entry;
        }
        match lost {
            Some(lost) if lost.is_active() => self.spilled = true,
            Some(_) => self.waiting = true,
            None => {}
        }
    }

    /// Marks an interrupt as listed; false if another virtual CPU has it.
    fn take(&self, entry: ListRegister, private: &Private, shared: &Shared) -> bool {
        let (word, at) = (entry.number() / 32, entry.number() % 32);
        let bit = 1 << at;
        let bank = match word {
            0 => &private.bank,
            _ => {
                let Some(group) = shared.group(word) else {
                    return false;
                };
                if !list(&group.bank, bit, entry.is_active()) {
                    return false;
                }
                group.set_holder(at, self.place);
                &group.bank
            }
        };
        if word == 0 {
            bank.listed.fetch_or(bit, Relaxed);
        }
        bank.active.fetch_and(!bit, Relaxed);
        if entry.is_pending() && bank.edge.load(Relaxed) & bit != 0 {
            // A CPU that makes it pending again finds the holder.
            bank.latch.fetch_and(!bit, AcqRel);
        }
        true
    }

    /// Handles that the guest ended `count` interrupts without a register: the active ones of the
    /// highest priority.
    pub fn ended_elsewhere(&mut self, count: u32, private: &Private, shared: &Shared) {
        let place = self.place;
        for _ in 0..count {
            let own = bits(private.bank.active.load(Relaxed)).map(|bit| (&private.bank, bit));
            let others = shared.groups().flat_map(move |(_, group)| {
                let held = move |bit: &u32| group.holder(*bit) == place;
                bits(group.bank.active.load(Relaxed))
                    .filter(held)
                    .map(|bit| (&group.bank, bit))
            });
            let Some((bank, bit)) = own
                .chain(others)
                .min_by_key(|(bank, bit)| bank.priority(*bit))
            else {
                return;
            };
            bank.active.fetch_and(!(1 << bit), Relaxed);
        }
    }
}

/// Marks a shared interrupt as listed that is active or was deliverable. False if another virtual
/// CPU has it, or had it until the guest ended it meanwhile.
fn list(bank: &Bank, bit: u32, active: bool) -> bool {
    loop {
        if bank.listed.fetch_or(bit, SeqCst) & bit != 0 {
            return false;
        }
        if active || bank.due() & bit != 0 {
            return true;
        }
        bank.listed.fetch_and(!bit, SeqCst);
        // A CPU that made it pending again in between found it listed, and notified nobody else.
        if bank.deliverable() & bit == 0 {
            return false;
        }
    }
}

fn fold(bank: &Bank, bit: u32, entry: ListRegister) {
    if entry.is_active() {
        bank.active.fetch_or(bit, Relaxed);
    }
    let edge = bank.edge.load(Relaxed) & bit != 0;
    match (edge, entry.is_pending()) {
        (true, true) => _ = bank.latch.fetch_or(bit, Relaxed),
        (false, false) => {
            // The guest has acknowledged it: it is no longer pending by software, and a hardware
            // interrupt's line has to be sampled again.
            bank.latch.fetch_and(!bit, Relaxed);
            if entry.is_of_hardware() {
                bank.line.fetch_and(!bit, Relaxed);
            }
        }
        _ => {}
    }
    bank.listed.fetch_and(!bit, SeqCst);
}

/// The order in which interrupts get list registers: active ones first, then by priority.
fn key(entry: ListRegister) -> u16 {
    u16::from(!entry.is_active()) << 8 | u16::from(entry.priority())
}

/// The content of a list register for an interrupt.
fn candidate(bank: &Bank, bit: u32, number: u32, active: bool, hardware: u32) -> ListRegister {
    let mask = 1 << bit;
    let priority = bank.priority(bit);
    let mut entry = ListRegister::new(number, priority, bank.group1.load(Relaxed) & mask != 0);
    let edge = bank.edge.load(Relaxed) & mask != 0;
    if active {
        entry = entry.active();
    }
    if !active || edge && bank.latch.load(Relaxed) & bank.enabled.load(Relaxed) & mask != 0 {
        entry = entry.pending();
    }
    if number < PRIVATE && hardware & mask != 0 {
        // A hardware interrupt cannot be both pending and active in the architecture (12.4.9).
        entry = entry.of_hardware();
    } else if !edge {
        entry = entry.reporting_end();
    }
    entry
}
