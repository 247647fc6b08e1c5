//! One register at a time: KVM_GET_ONE_REG, KVM_SET_ONE_REG and KVM_GET_REG_LIST.

use super::features::IDENTITY;
use super::firmware;
use super::sve;
use super::sysreg;
use super::vcpu::{State, Vcpu};
use super::vm::Machine;
use crate::arch::time;
use crate::arch::virt::timer;
use crate::arch::virt::{self, Debug, Guest, Keys, Name, System, encoding};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use zerocopy::IntoBytes;

/// Fields of a register's name.
pub const ARM64: u64 = 0x60 << 56;
const U32: u64 = 2 << 52;
pub const U64: u64 = 3 << 52;
const U128: u64 = 4 << 52;
const CORE: u64 = 0x10 << 16;
const SYSTEM: u64 = 0x13 << 16;

/// Offsets in `struct kvm_regs`, in words of 32 bits.
mod word {
    pub const X: u64 = 0;
    pub const SP: u64 = 62;
    pub const PC: u64 = 64;
    pub const PSTATE: u64 = 66;
    pub const SP_EL1: u64 = 68;
    pub const ELR_EL1: u64 = 70;
    pub const SPSR_EL1: u64 = 72;
    pub const SPSR_ABT: u64 = 74;
    pub const SPSR_FIQ: u64 = 80;
    pub const V: u64 = 84;
    pub const FPSR: u64 = 212;
    pub const FPCR: u64 = 213;
    pub const END: u64 = 216;
}

/// The virtual timer's compare value and counter have each other's names in Linux, which confused
/// the numbers of CNTV_CVAL_EL0 and CNTVCT_EL0.
const DEADLINE: u64 = encoding(3, 3, 14, 0, 2) as u64;
const COUNTER: u64 = encoding(3, 3, 14, 3, 2) as u64;
const PHYSICAL_COUNTER: u64 = encoding(3, 3, 14, 0, 1) as u64;
/// OSLSR_EL1.
const LOCK_STATUS: u64 = sysreg::LOCK_STATUS as u64;

/// ZCR_EL1.
const VECTOR_CONTROL: u16 = encoding(3, 0, 1, 2, 0);
/// CTR_EL0, CLIDR_EL1, MIDR_EL1, REVIDR_EL1 and AIDR_EL1 have the values of this CPU.
const OWN: [u16; 5] = [
    encoding(3, 3, 0, 0, 1),
    encoding(3, 1, 0, 0, 1),
    encoding(3, 0, 0, 0, 0),
    encoding(3, 0, 0, 0, 6),
    encoding(3, 1, 0, 0, 7),
];
/// DISR_EL1.
const DEFERRED: u64 = encoding(3, 0, 12, 1, 1) as u64;
/// Registers of a 32-bit EL1 and of debuggers. No guest has them, but VMMs save and restore them:
/// MDCCINT_EL1, DBGVCR32_EL2, ACTLR_EL1, DACR32_EL2, IFSR32_EL2, FPEXC32_EL2.
const KEPT: [u16; 6] = [
    encoding(2, 0, 0, 2, 0),
    encoding(2, 4, 0, 7, 0),
    encoding(3, 0, 1, 0, 1),
    encoding(3, 4, 3, 0, 0),
    encoding(3, 4, 5, 0, 1),
    encoding(3, 4, 5, 3, 0),
];

/// MPIDR_EL1.
const MPIDR: u64 = encoding(3, 0, 0, 0, 5) as u64;
/// PSTATE, which is checked: not every value is valid.
const PSTATE: u64 = ARM64 | U64 | CORE | word::PSTATE;

/// The storage of a 64-bit register.
fn place(guest: &mut Guest, id: u64) -> Option<&mut u64> {
    let number = id & 0xffff;
    if id & !0xffff == ARM64 | U64 | SYSTEM {
        let name = match number {
            DEADLINE => System::ENCODINGS[Name::TimerDeadline as usize],
            _ if hidden().any(|hidden| u64::from(hidden) == number) => return None,
            _ => number as u16,
        };
        if let Some(at) = KEPT.iter().position(|kept| *kept == name) {
            return guest.kept.get_mut(at);
        }
        if number == DEFERRED {
            return Some(&mut guest.deferred);
        }
        if name >> 14 == 2 {
            return guest.debug.by_encoding(name);
        }
        if name == VECTOR_CONTROL {
            return guest.sve.as_mut().map(|sve| &mut sve.control);
        }
        let keys = guest.keys.as_mut();
        let key = keys.and_then(|keys| keys.by_encoding(name));
        return key.or_else(|| guest.system.by_encoding(name));
    }
    if id & !0xffff != ARM64 | U64 | CORE || !number.is_multiple_of(2) {
        return None;
    }
    let system = |name: Name| System::ENCODINGS[name as usize];
    match number {
        word::SP => Some(&mut guest.registers.sp),
        word::PC => Some(&mut guest.registers.pc),
        word::SP_EL1 => guest.system.by_encoding(system(Name::Sp)),
        word::ELR_EL1 => guest.system.by_encoding(system(Name::Elr)),
        word::SPSR_EL1 => guest.system.by_encoding(system(Name::Spsr)),
        word::SPSR_ABT..=word::SPSR_FIQ => {
            let at = (number - word::SPSR_ABT) as usize / 2;
            guest.banked.get_mut(at)
        }
        word::X..word::SP => guest.registers.x.get_mut(number as usize / 2),
        _ => None,
    }
}

/// Registers that the VMM reaches by other names.
fn hidden() -> impl Iterator<Item = u16> {
    [Name::Spsr, Name::Elr, Name::Sp, Name::TimerDeadline]
        .into_iter()
        .map(|name| System::ENCODINGS[name as usize])
}

/// The value of a register that is not stored per guest: ID registers and counters.
fn constant(machine: &Machine, guest: &Guest, id: u64) -> Option<u64> {
    let number = id & 0xffff;
    if id & !0xffff != ARM64 | U64 | SYSTEM {
        return None;
    }
    match number {
        MPIDR => Some(guest.mpidr),
        COUNTER => Some(time::now_ticks().wrapping_sub(machine.counters.offsets().virt)),
        PHYSICAL_COUNTER => Some(time::now_ticks().wrapping_sub(machine.counters.offsets().phys)),
        LOCK_STATUS => Some(guest.debug.lock_status()),
        _ if OWN.contains(&(number as u16)) => virt::own(number as u16),
        _ => machine.features()?.identity(number as u16),
    }
}

/// The error for an unknown register: EINVAL among the core registers, as in Linux, else ENOENT.
fn absent(id: u64) -> Errno {
    if id & 0xfff_0000 == CORE && id & 0xffff < word::END {
        Errno::EINVAL
    } else {
        Errno::ENOENT
    }
}

/// The index of an FP and SIMD register, by its id. With SVE they are parts of the SVE registers.
fn vector(guest: &Guest, id: u64) -> Option<usize> {
    let number = (id & 0xffff).checked_sub(word::V)?;
    let named = id & !0xffff == ARM64 | U128 | CORE && number % 4 == 0 && number < 4 * 32;
    (named && guest.sve.is_none()).then_some(number as usize / 4)
}

fn control(guest: &mut Guest, id: u64) -> Option<&mut u32> {
    match id {
        _ if id == ARM64 | U32 | CORE | word::FPSR => Some(&mut guest.fp.fpsr),
        _ if id == ARM64 | U32 | CORE | word::FPCR => Some(&mut guest.fp.fpcr),
        _ => None,
    }
}

/// Writes a register's value to the VMM's `address`.
pub fn get(machine: &Machine, state: &mut State, id: u64, address: usize) -> Result<()> {
    if let Some(value) = firmware::get(machine, state.has_psci(), id) {
        return UserPtr::new(address).write(&value);
    }
    let guest = &mut state.guest;
    if sve::names(id) {
        return sve::get(guest, id, address);
    }
    if let Some(at) = vector(guest, id) {
        return UserSlice::new(address, 16).copy_out(guest.fp.v[at].as_bytes());
    }
    if let Some(value) = constant(machine, guest, id) {
        return UserPtr::new(address).write(&value);
    }
    if let Some(value) = control(guest, id) {
        return UserPtr::new(address).write(value);
    }
    if id & !0xffff == ARM64 | U64 | SYSTEM {
        let offsets = machine.counters.offsets();
        if let Some(value) = timer::control(&guest.system, offsets, id as u16) {
            return UserPtr::new(address).write(&value);
        }
    }
    if id == PSTATE {
        return UserPtr::new(address).write(&guest.registers.pstate());
    }
    UserPtr::new(address).write(place(guest, id).ok_or(absent(id))?)
}

/// Sets a register to the value at the VMM's `address`.
pub fn set(
    machine: &Machine,
    vcpu: &Vcpu,
    state: &mut State,
    id: u64,
    address: usize,
) -> Result<()> {
    if firmware::get(machine, state.has_psci(), id).is_some() {
        let wanted: u64 = UserPtr::new(address).read()?;
        return firmware::set(machine, state.has_psci(), id, wanted);
    }
    let guest = &mut state.guest;
    if sve::names(id) {
        return sve::set(guest, id, address);
    }
    if let Some(at) = vector(guest, id) {
        let mut value = [0u64; 2];
        UserSlice::new(address, 16).copy_in(value.as_mut_bytes())?;
        guest.fp.v[at] = value;
        return Ok(());
    }
    if let Some(value) = control(guest, id) {
        *value = UserPtr::new(address).read()?;
        return Ok(());
    }
    if let Some(fixed) = constant(machine, guest, id) {
        let value: u64 = UserPtr::new(address).read()?;
        if id == ARM64 | U64 | SYSTEM | COUNTER {
            machine.counters.set_virtual(value);
        } else if id == ARM64 | U64 | SYSTEM | PHYSICAL_COUNTER {
            machine.counters.set_physical(value);
        } else if id == ARM64 | U64 | SYSTEM | MPIDR {
            machine.set_mpidr(vcpu, value)?;
            guest.mpidr = value;
        } else if id == ARM64 | U64 | SYSTEM | LOCK_STATUS {
            return match guest.debug.set_lock_status(value) {
                true => Ok(()),
                false => Err(Errno::EINVAL),
            };
        } else if value != fixed {
            return Err(Errno::EINVAL);
        }
        return Ok(());
    }
    if id == PSTATE {
        guest.registers.set_pstate(UserPtr::new(address).read()?)?;
    } else {
        let place = place(guest, id).ok_or(absent(id))?;
        *place = UserPtr::new(address).read()?;
    }
    guest.registers.narrow();
    // A guest that is restored with breakpoints set does not access them first.
    guest.debug.give_if_on();
    Ok(())
}

/// The names of all registers that a guest has.
fn names(guest: &Guest) -> impl Iterator<Item = u64> + use<'_> {
    let general = (word::X..=word::SPSR_FIQ)
        .step_by(2)
        .map(|at| ARM64 | U64 | CORE | at);
    let has_sve = guest.sve.is_some();
    let vectors =
        (0..if has_sve { 0 } else { 32 }).map(|at| ARM64 | U128 | CORE | (word::V + 4 * at));
    let controls = [word::FPSR, word::FPCR].map(|at| ARM64 | U32 | CORE | at);
    let keys = guest.keys.iter().flat_map(|_| Keys::ENCODINGS);
    let system = System::ENCODINGS
        .iter()
        .copied()
        .filter(|known| hidden().all(|hidden| hidden != *known))
        .map(u64::from);
    let identity = IDENTITY.map(u64::from);
    let others = [
        DEADLINE,
        COUNTER,
        PHYSICAL_COUNTER,
        MPIDR,
        LOCK_STATUS,
        DEFERRED,
    ];
    let constants = OWN.into_iter().chain(KEPT).map(u64::from);
    let system = system
        .chain(keys.map(|known| u64::from(*known)))
        .chain(has_sve.then_some(u64::from(VECTOR_CONTROL)))
        .chain(others)
        .chain(constants)
        .chain(Debug::encodings().map(u64::from))
        .chain(identity)
        .map(|number| ARM64 | U64 | SYSTEM | number);
    general
        .chain(vectors)
        .chain(controls)
        .chain(sve::all(guest))
        .chain(system)
        .chain(firmware::names())
}

/// Writes the number of registers to the VMM's `address`, and their names after it; E2BIG if there
/// is too little room.
pub fn list(state: &State, address: usize) -> Result<usize> {
    let number = UserPtr::<u64>::new(address);
    let room = number.read()?;
    let count = names(&state.guest).count() as u64;
    number.write(&count)?;
    if room < count {
        return Err(Errno::E2BIG);
    }
    for (at, name) in (1..).zip(names(&state.guest)) {
        number.add(at).write(&name)?;
    }
    Ok(0)
}
