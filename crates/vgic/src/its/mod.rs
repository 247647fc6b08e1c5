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

/// The length of both frames in bytes: the registers, and the frame that devices write to.
pub const LEN: u64 = 0x2_0000;
/// The offset that devices write to.
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
/// TYPER: physical LPIs; entries of 8 bytes; 16 bits each for events and devices.
const KIND: u64 = 1 | 7 << 4 | 15 << 8 | 15 << 13;
/// IIDR: product `K`, implementer Arm; the only revision is 0.
const NAME: u64 = 0x4b << 24 | 0x43b;
const REVISION: u64 = 0xf000;
/// PIDR4 to PIDR3, then CIDR0 to CIDR3.
const IDENTITY: [u8; 12] = [0x40, 0, 0, 0, 0x92, 0xb4, 0x3b, 0, 0x0d, 0xf0, 0x05, 0xb1];

/// Fields of CBASER and BASER: valid; the number of pages minus one; memory attributes.
const VALID: u64 = 1 << 63;
const PAGES: u64 = 0xff;
const COMMAND_PAGE: u64 = 0x1000;
/// Fields of BASER: two levels; the type of table; entries of 8 bytes; pages of 64 KB.
const INDIRECT: u64 = 1 << 62;
const READ_ONLY: u64 = 7 << 56 | 0x1f << 48 | 3 << 8;
const TABLE_PAGE: u64 = 0x1_0000;
const DEVICES: u64 = 1 << 56 | TABLE_ENTRIES;
const COLLECTIONS: u64 = 4 << 56 | TABLE_ENTRIES;
const TABLE_ENTRIES: u64 = 7 << 48 | 2 << 8;
/// Memory attributes at reset: cached, inner shareable.
const AT_RESET: u64 = 3 << 59 | 1 << 10;

/// The size of a command in bytes, and the bits of an offset into the queue.
const COMMAND: u64 = 32;
const PLACE: u64 = 0xf_ffe0;

/// The services that an ITS needs from its machine.
pub trait Machine {
    /// Reads the guest's memory; false if there is none.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
    /// Writes the guest's memory; false if there is none.
    fn write(&self, address: u64, from: &[u8]) -> bool;
    /// Whether the guest has memory at an address.
    fn has(&self, address: u64) -> bool;
    /// The place of the virtual CPU with this number.
    fn place(&self, number: u16) -> Option<u16>;
    /// The private state of the virtual CPU at this place.
    fn private(&self, place: u16) -> Option<&Private>;
    /// The state that all virtual CPUs share.
    fn shared(&self) -> &Shared;
    /// Makes the virtual CPU at this place refresh its interrupts.
    fn notify(&self, place: u16);
    /// Called between two commands or LPIs, so that others can run. False if the machine is being
    /// destroyed.
    fn pause(&self) -> bool;
}

/// Pauses at every 1,024th of many short steps.
#[derive(Default)]
struct Steps(u32);

impl Steps {
    /// Called before a step. False if the machine is being destroyed.
    fn next(&mut self, machine: &impl Machine) -> bool {
        self.0 = self.0.wrapping_add(1);
        !self.0.is_multiple_of(1024) || machine.pause()
    }
}

/// The part that injection reads without a lock.
#[derive(Debug)]
pub struct Injector {
    /// The translations.
    pub index: Index,
    enabled: AtomicBool,
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The guest has not turned on the ITS.
    Off,
    /// The guest has not mapped the event.
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
    /// Ordered by number.
    devices: Vec<Device>,
    collections: Vec<Collection>,
}

/// A device that the guest mapped.
#[derive(Clone, Copy, Debug)]
struct Device {
    number: u16,
    /// The number of bits in its event numbers.
    bits: u32,
    /// The address at which its translations are saved.
    table: u64,
}

/// A collection: the number of the virtual CPU that its LPIs are routed to, if it is mapped.
#[derive(Clone, Copy, Debug)]
struct Collection {
    number: u16,
    target: Option<u16>,
}

impl Injector {
    /// An ITS at reset; guests must not know `seed`.
    pub fn new(seed: u64) -> Self {
        Injector {
            index: Index::new(seed),
            enabled: AtomicBool::new(false),
        }
    }

    /// Translates a device's message into an LPI. Returns the place of a virtual CPU that must
    /// refresh its interrupts, if any.
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
    /// The state at reset.
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

    /// Resets the ITS; tables keep their addresses.
    pub fn reset(&mut self, injector: &Injector, machine: &impl Machine) {
        injector.enabled.store(false, Release);
        self.drop_devices(injector, machine);
        *self = Its {
            device_table: self.device_table & !VALID,
            collection_table: self.collection_table & !VALID,
            ..Its::new()
        };
    }

    /// Performs a guest's access to a register. Returns the value read.
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

    /// Whether a VMM can save and restore the register at this offset individually.
    pub fn has(offset: u64) -> Result<(), Refused> {
        // 64-bit registers can only be accessed as a whole.
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

    /// Reads a register for the VMM.
    pub fn get(&self, injector: &Injector, offset: u64) -> Result<u64, Refused> {
        Its::has(offset)?;
        Ok(match offset as u32 {
            offset @ (CTLR | IIDR | IDENTIFICATION..) => self.word(injector, offset),
            offset => self.register(offset),
        })
    }

    /// Writes a register for the VMM.
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

    /// The value of a 32-bit register.
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

    /// The value of a 64-bit register.
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
                // This table always has one level.
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

    /// The size of the queue in bytes.
    fn queue(&self) -> u64 {
        ((self.commands & PAGES) + 1) * COMMAND_PAGE
    }

    /// Executes commands until none is left.
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
            // The result does not matter: if the machine is being destroyed, this still ends with
            // the last translation.
            steps.next(machine);
            machine.shared().remove_lpi(translation.lpi.into());
            false
        });
    }
}

/// The attributes with which this ITS accesses memory: never outer shareable, never uncached, and
/// with the outer cacheability of the inner one.
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
