//! Registers that the distributor and redistributors have in common (Arm IHI 0069, 12.9 and 12.11):
//! those with fields for each interrupt, by word.

use core::sync::atomic::Ordering::*;

use crate::Bank;

/// A guest's access to a register, within one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The offset from the start of the frame.
    pub offset: u32,
    /// The length in bytes: 1, 2, 4 or 8.
    pub len: u32,
    /// The value written; `None` for a read.
    pub write: Option<u64>,
}

/// The virtual CPUs that must refresh their interrupts after an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None.
    Nothing,
    /// The virtual CPU that owns the redistributor.
    Private,
    /// The virtual CPUs that have or will get one of these interrupts, of the 32 from `32 × word`
    /// on.
    Shared { word: u32, bits: u32 },
    /// All virtual CPUs.
    Everyone,
}

/// The result of an access: the value read, and the virtual CPUs that must refresh their
/// interrupts.
pub type Accessed = (u64, Effect);

/// Reads as zero, and ignores writes.
pub(crate) const ZERO: Accessed = (0, Effect::Nothing);

/// Offsets of the registers with a bit for each interrupt, of 32 words each; then those of the
/// others.
pub(crate) const GROUP: u32 = 0x080;
const SET_ENABLE: u32 = 0x100;
const CLEAR_ENABLE: u32 = 0x180;
pub(crate) const SET_PENDING: u32 = 0x200;
pub(crate) const CLEAR_PENDING: u32 = 0x280;
pub(crate) const SET_ACTIVE: u32 = 0x300;
const CLEAR_ACTIVE: u32 = 0x380;
const PRIORITY: u32 = 0x400;
const PRIORITY_END: u32 = 0x800;
const CONFIGURATION: u32 = 0xc00;
const CONFIGURATION_END: u32 = 0xd00;
/// The distance between these ranges.
const STRIDE: u32 = 0x80;

impl Access {
    /// Whether the access is to a whole aligned word.
    pub(crate) fn is_word(&self) -> bool {
        self.len == 4 && self.offset.is_multiple_of(4)
    }

    /// The accessed part of a 64-bit register that begins at `start`.
    pub(crate) fn part(&self, start: u32, register: u64) -> u64 {
        let shifted = register >> ((self.offset - start) * 8);
        match self.len {
            8 => shifted,
            _ => shifted & u64::from(u32::MAX),
        }
    }

    /// The value of a 64-bit register that begins at `start` and held `old`, after a write to all
    /// or half of it.
    pub(crate) fn merge(&self, start: u32, old: u64) -> u64 {
        let (value, low) = (self.write.unwrap_or(0), u64::from(u32::MAX));
        match (self.len, self.offset - start) {
            (8, _) => value,
            (_, 0) => old & !low | value & low,
            _ => old & low | value << 32,
        }
    }

    /// Whether the access needs the pending and active state of interrupts, so that list registers
    /// must be taken back first.
    pub fn needs_state(&self) -> bool {
        (SET_PENDING..PRIORITY).contains(&(self.offset & 0xffff))
    }

    /// Whether the access makes interrupts active.
    pub(crate) fn sets_active(&self) -> bool {
        self.write.is_some() && (SET_ACTIVE..CLEAR_ACTIVE).contains(&self.offset)
    }

    /// The index of the word of interrupts that such an access concerns.
    pub fn state_word(&self) -> u32 {
        word(self.offset & 0xffff)
    }
}

/// The index of the word of interrupts that a register concerns.
pub(crate) fn word(offset: u32) -> u32 {
    match offset {
        GROUP..PRIORITY => offset % STRIDE / 4,
        PRIORITY..PRIORITY_END => (offset - PRIORITY) / 32,
        _ => (offset - CONFIGURATION) / 8,
    }
}

/// Whether a register is one of these.
pub(crate) fn is_common(offset: u32) -> bool {
    (GROUP..PRIORITY_END).contains(&offset) || (CONFIGURATION..CONFIGURATION_END).contains(&offset)
}

/// Performs an access to a bank's registers; `fixed` are interrupts whose configuration cannot
/// change. Returns the value read, and the interrupts that a write affected.
pub(crate) fn access(bank: &Bank, access: &Access, fixed: u32) -> (u64, u32) {
    let offset = access.offset;
    if (PRIORITY..PRIORITY_END).contains(&offset) {
        return priority(bank, access);
    }
    if !access.is_word() {
        return (0, 0);
    }
    if offset >= CONFIGURATION {
        let half = offset / 4 % 2;
        if let Some(value) = access.write {
            let kept = bank.configuration(half) & spread(fixed >> (half * 16));
            let changed = value as u32 & !spread(fixed >> (half * 16));
            bank.set_configuration(half, kept | changed);
        }
        return (bank.configuration(half).into(), 0);
    }
    let register = offset / STRIDE * STRIDE;
    let Some(value) = access.write else {
        return (read(bank, register).into(), 0);
    };
    write(bank, register, value as u32);
    (0, value as u32)
}

/// Both configuration bits of each of sixteen interrupts.
fn spread(interrupts: u32) -> u32 {
    (0..16).fold(0, |word, at| {
        word | ((interrupts >> at & 1) * 3) << (2 * at)
    })
}

fn read(bank: &Bank, register: u32) -> u32 {
    match register {
        GROUP => bank.group1.load(Relaxed),
        SET_ENABLE | CLEAR_ENABLE => bank.enabled.load(Relaxed),
        SET_PENDING | CLEAR_PENDING => bank.pending(),
        _ => bank.active.load(Relaxed),
    }
}

fn write(bank: &Bank, register: u32, value: u32) {
    match register {
        GROUP => bank.group1.store(value, SeqCst),
        SET_ENABLE => _ = bank.enabled.fetch_or(value, SeqCst),
        CLEAR_ENABLE => _ = bank.enabled.fetch_and(!value, SeqCst),
        SET_PENDING => _ = bank.latch.fetch_or(value, SeqCst),
        CLEAR_PENDING => _ = bank.latch.fetch_and(!value, SeqCst),
        SET_ACTIVE => _ = bank.active.fetch_or(value, SeqCst),
        CLEAR_ACTIVE => _ = bank.active.fetch_and(!value, SeqCst),
        _ => {}
    }
}

fn priority(bank: &Bank, access: &Access) -> (u64, u32) {
    let (word, byte) = (access.offset as usize / 4 % 8, access.offset % 4);
    let mask = match access.len {
        1 => 0xff << (byte * 8),
        4 if byte == 0 => u32::MAX,
        _ => return (0, 0),
    };
    if let Some(value) = access.write {
        bank.set_priorities(word, (value as u32) << (byte * 8), mask);
        return (0, 0);
    }
    (u64::from((bank.priorities(word) & mask) >> (byte * 8)), 0)
}
