//! A guest's ITS: it turns writes of devices into LPIs (Arm IHI 0069, chapter 5 and 12.18), as
//! Linux's KVM shows it.
//!
//! - [`Index`] translates events without a lock, for injection.
//! - [`Its`] is the state that the guest's commands change, one at a time, outside of the guest.
//! - `commands` executes them; `saved` writes the tables into the guest's memory and reads them
//!   back.
//!
//! Commands and tables are the guest's. Whatever they hold, an invalid command is skipped.

mod commands;
mod index;
mod saved;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};

pub(crate) use commands::{configure, configure_all};
pub use index::{Index, Translation};
pub(crate) use saved::turned_on;
pub use saved::{Unsaved, save_pending};

use crate::vmm::Refused;
use crate::{Access, Private, Shared};

/// Length of both frames, in bytes: registers, and the one that devices write to.
pub const LEN: u64 = 0x2_0000;
/// Where devices write to.
pub const TRANSLATER: u64 = 0x1_0040;

const CTLR: u32 = 0x0000;
const IIDR: u32 = 0x0004;
const TYPER: u32 = 0x0008;
const CBASER: u32 = 0x0080;
const CWRITER: u32 = 0x0088;
const CREADR: u32 = 0x0090;
const BASER0: u32 = 0x0100;
const BASER1: u32 = 0x0108;
const BASER_END: u32 = 0x0140;
const IDENTIFICATION: u32 = 0xffd0;
const FRAME: u32 = 0x1_0000;

const ENABLED: u64 = 1;
const QUIESCENT: u64 = 1 << 31;
/// TYPER: physical LPIs; entries of 8 bytes; 16 bits of events and of devices.
const KIND: u64 = 1 | 7 << 4 | 15 << 8 | 15 << 13;
/// IIDR: product `K`, implementer Arm; revision 0 is the one there is.
const NAME: u64 = 0x4b << 24 | 0x43b;
const REVISION: u64 = 0xf000;
/// PIDR4 to PIDR3, then CIDR0 to CIDR3.
const IDENTITY: [u8; 12] = [0x40, 0, 0, 0, 0x92, 0xb4, 0x3b, 0, 0x0d, 0xf0, 0x05, 0xb1];

/// Fields of CBASER and BASER: valid; pages, less one; attributes of memory.
const VALID: u64 = 1 << 63;
const PAGES: u64 = 0xff;
const COMMAND_PAGE: u64 = 0x1000;
/// Fields of BASER: two levels; the kind of table; entries of 8 bytes; pages of 64 KB.
const INDIRECT: u64 = 1 << 62;
const READ_ONLY: u64 = 7 << 56 | 0x1f << 48 | 3 << 8;
const TABLE_PAGE: u64 = 0x1_0000;
const DEVICES: u64 = 1 << 56 | TABLE_ENTRIES;
const COLLECTIONS: u64 = 4 << 56 | TABLE_ENTRIES;
const TABLE_ENTRIES: u64 = 7 << 48 | 2 << 8;
/// Memory at reset: cached, inner shareable.
const AT_RESET: u64 = 3 << 59 | 1 << 10;

/// Bytes of a command, and bits of a place in the queue.
const COMMAND: u64 = 32;
const PLACE: u64 = 0xf_ffe0;

/// The services that an ITS needs of its machine.
pub trait Machine {
    /// Copies from the guest's memory; false if it is not there.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
    /// Copies to the guest's memory; false if it is not there.
    fn write(&self, address: u64, from: &[u8]) -> bool;
    /// Whether the guest has memory there.
    fn has(&self, address: u64) -> bool;
    /// The place of the virtual CPU with this number.
    fn place(&self, number: u16) -> Option<u16>;
    /// The private state of the virtual CPU in this place.
    fn private(&self, place: u16) -> Option<&Private>;
    /// The state that all virtual CPUs share.
    fn shared(&self) -> &Shared;
    /// The virtual CPU in this place has to look at its interrupts.
    fn notify(&self, place: u16);
    /// Between two commands or LPIs: time for others. False if the machine goes away.
    fn pause(&self) -> bool;
}

/// Pauses at every 1,024th of many steps that are short.
#[derive(Default)]
struct Steps(u32);

impl Steps {
    /// Before a step. False if the machine goes away.
    fn next(&mut self, machine: &impl Machine) -> bool {
        self.0 = self.0.wrapping_add(1);
        !self.0.is_multiple_of(1024) || machine.pause()
    }
}

/// The part that injection uses: read without a lock.
#[derive(Debug)]
pub struct Injector {
    /// The translations.
    pub index: Index,
    enabled: AtomicBool,
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The guest has not turned it on.
    Off,
    /// The guest does not know the event.
    Unknown,
}

/// The part that commands change.
#[derive(Debug)]
pub struct Its {
    commands: u64,
    read: u64,
    written: u64,
    device_table: u64,
    collection_table: u64,
    /// By number.
    devices: Vec<Device>,
    collections: Vec<Collection>,
}

/// A device that the guest mapped.
#[derive(Clone, Copy, Debug)]
struct Device {
    number: u16,
    /// Bits of its events.
    bits: u32,
    /// Where its translations are saved.
    table: u64,
}

/// Where a collection's LPIs go: the number of a virtual CPU, if it is mapped.
#[derive(Clone, Copy, Debug)]
struct Collection {
    number: u16,
    target: Option<u16>,
}

impl Injector {
    /// An ITS at reset; `seed` is unknown to guests.
    pub fn new(seed: u64) -> Self {
        Injector {
            index: Index::new(seed),
            enabled: AtomicBool::new(false),
        }
    }

    /// A device's message: its event becomes an LPI. Returns the place of a virtual CPU that has to
    /// look for it.
    #[inline]
    pub fn inject(
        &self,
        machine: &impl Machine,
        device: u32,
        event: u32,
    ) -> Result<Option<u16>, Dropped> {
        if !self.enabled.load(Acquire) {
            return Err(Dropped::Off);
        }
        let numbers = u16::try_from(device).ok().zip(u16::try_from(event).ok());
        let found = numbers.and_then(|(device, event)| self.index.get(device, event));
        let lpi = u32::from(found.ok_or(Dropped::Unknown)?.lpi);
        let shared = machine.shared();
        let place = shared.target(lpi).ok_or(Dropped::Unknown)?;
        let private = machine.private(place).ok_or(Dropped::Unknown)?;
        if !private.has_lpis_on() {
            return Err(Dropped::Off);
        }
        Ok(shared.raise_lpi(lpi))
    }
}

impl Default for Its {
    fn default() -> Self {
        Its::new()
    }
}

impl Its {
    /// At reset.
    pub fn new() -> Self {
        Its {
            commands: 0,
            read: 0,
            written: 0,
            device_table: AT_RESET | DEVICES,
            collection_table: AT_RESET | COLLECTIONS,
            devices: Vec::new(),
            collections: Vec::new(),
        }
    }

    /// Back to reset, where tables keep their places.
    pub fn reset(&mut self, injector: &Injector, machine: &impl Machine) {
        injector.enabled.store(false, Release);
        self.drop_devices(injector, machine);
        *self = Its {
            device_table: self.device_table & !VALID,
            collection_table: self.collection_table & !VALID,
            ..Its::new()
        };
    }

    /// A guest's access to a register. Returns the value read.
    pub fn access(&mut self, injector: &Injector, machine: &impl Machine, access: &Access) -> u64 {
        let aligned = access.len >= 4 && access.offset.is_multiple_of(access.len);
        let start = access.offset & !7;
        if !aligned || access.offset >= FRAME {
            return 0;
        }
        match access.offset {
            CTLR | IIDR | IDENTIFICATION.. if access.len == 4 => match access.write {
                None => self.word(injector, access.offset),
                Some(value) if access.offset == CTLR => {
                    self.control(injector, machine, value);
                    0
                }
                Some(_) => 0,
            },
            TYPER..IDENTIFICATION => {
                let old = self.register(start);
                if access.write.is_some() {
                    self.set_register(injector, machine, start, access.merge(start, old));
                }
                access.part(start, old)
            }
            _ => 0,
        }
    }

    /// Whether a VMM can save and restore a register of this offset, by itself.
    pub fn has(offset: u64) -> Result<(), Refused> {
        // 64-bit registers are only accessed whole.
        let wide = (u64::from(TYPER)..u64::from(IDENTIFICATION)).contains(&offset);
        if !offset.is_multiple_of(if wide { 8 } else { 4 }) {
            return Err(Refused::Invalid);
        }
        let there = offset < u64::from(FRAME)
            && match offset as u32 {
                CTLR | IIDR | TYPER | CBASER | CWRITER | CREADR => true,
                offset => (BASER0..BASER_END).contains(&offset) || offset >= IDENTIFICATION,
            };
        there.then_some(()).ok_or(Refused::Absent)
    }

    /// A VMM reads a register.
    pub fn get(&self, injector: &Injector, offset: u64) -> Result<u64, Refused> {
        Its::has(offset)?;
        Ok(match offset as u32 {
            offset @ (CTLR | IIDR | IDENTIFICATION..) => self.word(injector, offset),
            offset => self.register(offset),
        })
    }

    /// A VMM writes a register.
    pub fn set(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        offset: u64,
        value: u64,
    ) -> Result<(), Refused> {
        Its::has(offset)?;
        match offset as u32 {
            CTLR => self.control(injector, machine, value),
            IIDR if value & REVISION != 0 => return Err(Refused::Invalid),
            CREADR if value & PLACE >= self.queue() => return Err(Refused::Invalid),
            CREADR => self.read = value & PLACE,
            offset => self.set_register(injector, machine, offset, value),
        }
        Ok(())
    }

    /// A register of 32 bits.
    fn word(&self, injector: &Injector, offset: u32) -> u64 {
        match offset {
            CTLR => {
                let quiescent = if self.read == self.written {
                    QUIESCENT
                } else {
                    0
                };
                u64::from(injector.enabled.load(Relaxed)) | quiescent
            }
            IIDR => NAME,
            offset => {
                let at = (offset.saturating_sub(IDENTIFICATION) / 4) as usize;
                IDENTITY.get(at).copied().unwrap_or(0).into()
            }
        }
    }

    /// A register of 64 bits.
    fn register(&self, offset: u32) -> u64 {
        match offset {
            TYPER => KIND,
            CBASER => self.commands,
            CWRITER => self.written,
            CREADR => self.read,
            BASER0 => self.device_table,
            BASER1 => self.collection_table,
            _ => 0,
        }
    }

    fn set_register(
        &mut self,
        injector: &Injector,
        machine: &impl Machine,
        offset: u32,
        value: u64,
    ) {
        let enabled = injector.enabled.load(Relaxed);
        match offset {
            CBASER if !enabled => {
                self.commands = attributes(value) & !0xf000;
                (self.read, self.written) = (0, 0);
            }
            CWRITER if value & PLACE < self.queue() => {
                self.written = value & PLACE;
                self.process(injector, machine);
            }
            BASER0 if !enabled => {
                self.device_table = attributes(value) & !READ_ONLY | DEVICES;
                if value & VALID == 0 {
                    self.drop_devices(injector, machine);
                }
            }
            BASER1 if !enabled => {
                // One level is all that it has.
                self.collection_table = attributes(value) & !(READ_ONLY | INDIRECT) | COLLECTIONS;
                if value & VALID == 0 {
                    self.collections = Vec::new();
                    self.route(injector, machine, None, |_| true);
                }
            }
            _ => {}
        }
    }

    fn control(&mut self, injector: &Injector, machine: &impl Machine, value: u64) {
        let tables = [self.commands, self.device_table, self.collection_table];
        let ready = tables.iter().all(|table| table & VALID != 0);
        let enabled = value & ENABLED != 0;
        if enabled && !ready && !injector.enabled.load(Relaxed) {
            return;
        }
        injector.enabled.store(enabled, Release);
        self.process(injector, machine);
    }

    /// Bytes of the queue.
    fn queue(&self) -> u64 {
        ((self.commands & PAGES) + 1) * COMMAND_PAGE
    }

    /// Does commands until none is left.
    fn process(&mut self, injector: &Injector, machine: &impl Machine) {
        while injector.enabled.load(Relaxed) && self.read != self.written {
            let base = self.commands & 0x000f_ffff_ffff_f000;
            let mut bytes = [0; COMMAND as usize];
            if machine.read(base + self.read, &mut bytes) {
                self.command(injector, machine, &bytes);
            }
            self.read = (self.read + COMMAND) % self.queue();
            if !machine.pause() {
                return;
            }
        }
    }

    fn drop_devices(&mut self, injector: &Injector, machine: &impl Machine) {
        self.devices = Vec::new();
        let mut steps = Steps::default();
        injector.index.retain(|translation| {
            // No more than there are, should the machine go away.
            steps.next(machine);
            machine.shared().remove_lpi(translation.lpi.into());
            false
        });
    }
}

/// Memory as this ITS accesses it: never outer shareable, never uncached, the outer cache as the
/// inner one.
fn attributes(value: u64) -> u64 {
    let share = match value >> 10 & 3 {
        2 => 1,
        other => other,
    };
    let inner = match value >> 59 & 7 {
        0 | 1 => 3,
        other => other,
    };
    let outer = match value >> 53 & 7 {
        1 => 1,
        _ => 0,
    };
    value & !(3 << 10 | 7 << 59 | 7 << 53) | share << 10 | inner << 59 | outer << 53
}
