//! Accesses that fault in stage 2: memory that is not mapped yet, the VMM's devices, or nothing;
//! and exceptions that are injected into guests.

use core::sync::atomic::Ordering::Relaxed;

use super::kvm_run::RunPage;
use super::memory::Found;
use super::vgic;
use super::vm::Machine;
use crate::arch::virt::error::{self, Severity};
use crate::arch::virt::{self, Guest, Name, Registers};
use crate::errno::{Errno, Result};

/// Bits of an abort's syndrome (Arm ARM, ESR_EL2, ISS encoding for a data abort).
const VALID: u64 = 1 << 24;
const SIGN_EXTEND: u64 = 1 << 21;
const SIXTY_FOUR: u64 = 1 << 15;
const MAINTENANCE: u64 = 1 << 8;
const WALK: u64 = 1 << 7;
const WRITE: u64 = 1 << 6;
/// Syndrome bits passed to the VMM if the hardware does not decode the access.
const UNDESCRIBED: u64 = MAINTENANCE | WRITE | KIND;
/// The kind of fault. Stage 2 stops an access with a kind below that of external aborts, which have
/// no guest-physical address.
const KIND: u64 = 0x3f;
const FIRST_EXTERNAL: u64 = 0x10;
const LAST_EXTERNAL: u64 = 0x1f;
/// Exception classes for EL1.
const CLASS_UNKNOWN: u64 = 0x00;
const CLASS_INSTRUCTION: u64 = 0x20;
const CLASS_DATA: u64 = 0x24;
/// Added to the class if the exception is taken from EL1 itself.
const SAME_LEVEL: u64 = 1;
/// A synchronous external abort.
const EXTERNAL: u64 = 0x10;
/// ESR.IL: a 32-bit instruction.
const LONG: u64 = 1 << 25;
/// PSTATE.M of EL0 in 32-bit state.
const AARCH32_USER: u64 = 0x10;

/// How an access was resolved.
pub enum Resolved {
    /// The guest continues.
    Again,
    /// The VMM completes the access before the guest continues.
    Vmm(Access),
    /// The access was reported to the VMM, which decides what to do.
    Notified,
}

/// An access that faulted.
#[derive(Clone, Copy)]
pub struct Access {
    syndrome: u64,
    /// The guest's virtual and physical address.
    virt: u64,
    phys: u64,
}

impl Access {
    /// The access that caused the current exit; None if the guest must try again.
    #[inline]
    pub fn take(registers: &mut Registers) -> Option<Self> {
        registers.take_fault().then(|| Self::of(registers))
    }

    /// The access that caused the last exit.
    #[inline]
    pub fn of(registers: &Registers) -> Self {
        let page = (registers.page >> 4 & 0xfff_ffff_ffff) << 12;
        Access {
            syndrome: registers.syndrome,
            virt: registers.address,
            phys: page | registers.address & 0xfff,
        }
    }

    fn is_data(&self) -> bool {
        self.syndrome >> 26 == CLASS_DATA
    }

    /// A walk of the guest's own tables counts as a read, whatever access it is for.
    fn writes(&self) -> bool {
        self.is_data() && self.syndrome & WRITE != 0 && self.syndrome & WALK == 0
    }

    fn len(&self) -> usize {
        1 << (self.syndrome >> 22 & 3)
    }

    fn register(&self) -> usize {
        (self.syndrome >> 16 & 31) as usize
    }

    /// The guest's physical address.
    #[inline]
    pub fn address(&self) -> u64 {
        self.phys
    }

    /// The access as one to a device's register at `offset`, if the hardware describes it in full.
    #[inline]
    pub fn at(&self, offset: u32, registers: &Registers) -> Option<::vgic::Access> {
        let has_syndrome = self.is_data() && self.syndrome & (VALID | WALK) == VALID;
        has_syndrome.then(|| ::vgic::Access {
            offset,
            len: self.len() as u32,
            write: self.writes().then(|| self.written(registers)),
        })
    }

    /// The value to write.
    #[inline]
    fn written(&self, registers: &Registers) -> u64 {
        registers.x.get(self.register()).copied().unwrap_or(0) & self.mask()
    }

    /// Makes the access possible, or passes it to the VMM.
    pub fn resolve(self, machine: &Machine, page: &RunPage, guest: &mut Guest) -> Result<Resolved> {
        match self.syndrome & KIND {
            ..FIRST_EXTERNAL => {}
            FIRST_EXTERNAL..=LAST_EXTERNAL => {
                guest.error = Some(error::UNKNOWN);
                return Ok(Resolved::Again);
            }
            _ => return Err(Errno::EFAULT),
        }
        if let Found::Memory = machine.fault(self.phys, self.writes())? {
            return Ok(Resolved::Again);
        }
        let outside = self.phys >= machine.limit();
        if outside || !self.is_data() || self.syndrome & WALK != 0 {
            self.refuse(guest);
            return Ok(Resolved::Again);
        }
        if self.syndrome & MAINTENANCE != 0 {
            // Cache maintenance of an address that is not cached has no effect.
            guest.registers.skip();
            return Ok(Resolved::Again);
        }
        if self.syndrome & VALID == 0 {
            if !machine.undescribed_to_vmm.load(Relaxed) {
                return Err(Errno::ENOSYS);
            }
            page.set_undescribed(self.syndrome & UNDESCRIBED, self.phys);
            return Ok(Resolved::Notified);
        }
        let at = |offset| self.at(offset, &guest.registers);
        if let Some(value) = vgic::access_by_memory(machine, self.phys, at) {
            self.complete(value, &mut guest.registers);
            return Ok(Resolved::Again);
        }
        let written = self.writes().then(|| self.written(&guest.registers));
        page.set_mmio(self.phys, self.len(), written);
        Ok(Resolved::Vmm(self))
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.len())
    }

    /// Completes the access: a read returns `value`.
    #[inline]
    pub fn complete(&self, value: u64, registers: &mut Registers) {
        if !self.writes() {
            let unused = 64 - 8 * self.len() as u32;
            let mut value = value & self.mask();
            if self.syndrome & SIGN_EXTEND != 0 {
                value = ((value << unused) as i64 >> unused) as u64;
            }
            if self.syndrome & SIXTY_FOUR == 0 {
                value &= u64::from(u32::MAX);
            }
            if let Some(register) = registers.x.get_mut(self.register()) {
                *register = value;
            }
        }
        registers.skip();
    }

    /// Injects an external abort because nothing is at the address.
    fn refuse(&self, guest: &mut Guest) {
        let class = if self.is_data() {
            CLASS_DATA
        } else {
            CLASS_INSTRUCTION
        };
        guest.system.set(Name::Far, self.virt);
        raise(guest, class, EXTERNAL);
    }
}

/// Injects an external data abort for the access that caused the last exit.
pub fn external(guest: &mut Guest) {
    let address = guest.registers.address;
    guest.system.set(Name::Far, address);
    raise(guest, CLASS_DATA, EXTERNAL);
}

/// Handles an error that the hardware reported while the guest ran.
///
/// # Panics
/// If the kernel cannot continue either.
pub fn hardware_error(guest: &mut Guest) {
    let syndrome = guest.registers.syndrome;
    match error::severity(syndrome, virt::errors_have_syndromes()) {
        Severity::Harmless => {}
        Severity::Guest => guest.error = Some(error::UNKNOWN),
        Severity::Fatal => panic!("SError {syndrome:#x} while a guest ran"),
    }
}

/// Injects an exception for an instruction that does not exist for the guest.
pub fn undefined(guest: &mut Guest) {
    raise(guest, CLASS_UNKNOWN, 0);
}

/// Takes an exception to EL1 (Arm ARM, "Exception entry").
fn raise(guest: &mut Guest, class: u64, details: u64) {
    let registers = &mut guest.registers;
    let (vector, same) = match registers.pstate() & 0x1f {
        0 => (0x400, 0),
        AARCH32_USER => (0x600, 0),
        4 => (0, SAME_LEVEL),
        _ => (0x200, SAME_LEVEL),
    };
    let class = if class == CLASS_UNKNOWN {
        class
    } else {
        class | same
    };
    guest.system.set(Name::Esr, class << 26 | LONG | details);
    guest.system.set(Name::Elr, registers.pc);
    guest.system.set(Name::Spsr, registers.pstate());
    let vector = guest.system.get(Name::Vbar).wrapping_add(vector);
    registers.take_exception(vector, guest.system.get(Name::Sctlr));
}
