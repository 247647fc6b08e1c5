//! Hypercalls: PSCI 0.1 to 1.1 (Arm DEN 0022), and the calls of the calling convention itself (Arm
//! DEN 0028).

use core::sync::atomic::Ordering::Relaxed;

use ::smccc::psci::error;
use ::smccc::psci::{
    PSCI_AFFINITY_INFO_32 as AFFINITY_INFO, PSCI_CPU_OFF as CPU_OFF, PSCI_CPU_ON_32 as CPU_ON,
    PSCI_CPU_SUSPEND_32 as CPU_SUSPEND, PSCI_FEATURES as FEATURES,
    PSCI_MIGRATE_INFO_TYPE as MIGRATE_INFO_TYPE, PSCI_SYSTEM_OFF as SYSTEM_OFF,
    PSCI_SYSTEM_RESET as SYSTEM_RESET, PSCI_SYSTEM_RESET2_32 as SYSTEM_RESET2,
    PSCI_SYSTEM_SUSPEND_32 as SYSTEM_SUSPEND, PSCI_VERSION as VERSION,
};
use alloc::sync::Arc;

use affinity::Affinity;

use super::calls::Action;
use super::context::Context;
use super::directory::Directory;
use super::exit::Exit;
use super::smccc;
use super::vcpu::Vcpu;
use super::vm::Machine;
use crate::arch::virt::Registers;
use crate::errno::{Errno, Result};

/// Functions that take addresses have a 64-bit form with this bit.
const WIDE: u32 = 1 << 30;
/// Functions of version 0.1, numbered as in Linux's KVM: CPU_SUSPEND, CPU_OFF, CPU_ON, MIGRATE.
const OLD: u32 = 0x95c1_ba5e;
const OLD_OFF: u32 = OLD + 1;
const OLD_ON: u32 = OLD + 2;

/// Results.
const SUCCESS: i64 = 0;
pub const NOT_SUPPORTED: i64 = error::NOT_SUPPORTED as i64;
const INVALID_PARAMETERS: i64 = error::INVALID_PARAMETERS as i64;
const ALREADY_ON: i64 = error::ALREADY_ON as i64;
const INTERNAL_FAILURE: i64 = error::INTERNAL_FAILURE as i64;
/// Versions.
const VERSION_0_1: u64 = 1;
const VERSION_0_2: u64 = 2;
const VERSION_1_0: u64 = 1 << 16;
const VERSION_1_1: u64 = 1 << 16 | 1;
/// MIGRATE_INFO_TYPE: there is no trusted OS that would have to be migrated.
const NO_TRUSTED_SYSTEM: i64 = 2;
/// Answers of AFFINITY_INFO.
const ON: i64 = 0;
const OFF: i64 = 1;

/// Affinity fields of MPIDR_EL1.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The last known PSCI function, counted from VERSION.
const LAST: u32 = VERSION + 0x1f;

/// The version that a guest sees.
pub fn version(machine: &Machine, wanted: bool) -> u64 {
    match machine.psci.load(Relaxed) {
        _ if !wanted => VERSION_0_1,
        0 => VERSION_1_1,
        version => version,
    }
}

/// Sets that version; `wanted` is whether the virtual CPU was initialized with version 0.2 or
/// newer.
///
/// # Errors
/// EINVAL: the virtual CPU cannot have this version.
pub fn set_version(machine: &Machine, wanted: bool, version: u64) -> Result<()> {
    let new = [VERSION_0_2, VERSION_1_0, VERSION_1_1].contains(&version);
    if !(wanted && new || !wanted && version == VERSION_0_1) {
        return Err(Errno::EINVAL);
    }
    machine.psci.store(version, Relaxed);
    Ok(())
}

/// Bits that no function has, except those of version 0.1 and [`smccc::MAKER`]: one test refuses
/// almost all unknown functions.
const NO_FUNCTION: u32 = 0x00ff_ff80;
const _: () = assert!((LAST | smccc::LAST) & NO_FUNCTION == 0);

/// Calls with one of these bits are refused. There are none if the guest may call the functions of
/// version 0.1.
pub fn refused(has_psci: bool) -> u32 {
    if has_psci { NO_FUNCTION } else { 0 }
}

/// Performs the call that the guest's registers describe.
#[inline(always)]
pub fn call(context: &mut Context, registers: &mut Registers) -> Exit {
    let function = registers.x[0] as u32;
    if function & context.config.refused == 0 || function == smccc::MAKER {
        return search(context, registers, function);
    }
    registers.x[0] = NOT_SUPPORTED as u64;
    Exit::Again
}

#[inline(never)]
fn search(context: &mut Context, registers: &mut Registers, function: u32) -> Exit {
    match context.machine.calls.action(function) {
        Action::Handle => {}
        Action::Deny => {
            registers.x[0] = NOT_SUPPORTED as u64;
            return Exit::Again;
        }
        Action::Forward => return Exit::Calls { flags: 0 },
    }
    if (VERSION..=LAST).contains(&(function & !WIDE)) {
        return known(context, registers, function);
    }
    if !context.config.has_psci && (OLD..=OLD + 3).contains(&function) {
        return old(context, registers, function);
    }
    smccc::call(context, registers, function)
}

fn old(context: &mut Context, registers: &mut Registers, function: u32) -> Exit {
    let [first, second, third] = [1, 2, 3].map(|at| registers.x[at]);
    let result = match function {
        OLD_OFF => {
            context.vcpu.stop();
            SUCCESS
        }
        OLD_ON => start(context.directory, first, second, third),
        _ => NOT_SUPPORTED,
    };
    registers.x[0] = result as u64;
    Exit::Again
}

fn known(context: &mut Context, registers: &mut Registers, function: u32) -> Exit {
    let width = if function & WIDE == 0 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    let [first, second, third] = [1, 2, 3].map(|at| registers.x[at] & width);
    let version = version(context.machine, context.config.has_psci);
    let (result, exit) = match function {
        _ if version == VERSION_0_1 => (NOT_SUPPORTED, Exit::Again),
        VERSION => (version as i64, Exit::Again),
        CPU_OFF => {
            context.vcpu.stop();
            (SUCCESS, Exit::Again)
        }
        _ if function & !WIDE == CPU_SUSPEND => (SUCCESS, Exit::Waits),
        _ if function & !WIDE == CPU_ON => {
            (start(context.directory, first, second, third), Exit::Again)
        }
        _ if function & !WIDE == AFFINITY_INFO => {
            (info(context.directory, first, second), Exit::Again)
        }
        MIGRATE_INFO_TYPE => (NO_TRUSTED_SYSTEM, Exit::Again),
        SYSTEM_OFF => (INTERNAL_FAILURE, Exit::Off),
        SYSTEM_RESET => (INTERNAL_FAILURE, Exit::Reset),
        _ if function & !WIDE == SYSTEM_RESET2 && version >= VERSION_1_1 => reset2(first),
        _ if function & !WIDE == SYSTEM_SUSPEND && suspends(context.machine, version) => {
            // The VMM finds the arguments in the guest's registers.
            return Exit::Suspends;
        }
        FEATURES
            if version >= VERSION_1_0
                && first as u32 & !WIDE == SYSTEM_SUSPEND
                && suspends(context.machine, version) =>
        {
            (SUCCESS, Exit::Again)
        }
        FEATURES if version >= VERSION_1_0 => (features(first as u32, version), Exit::Again),
        _ => (NOT_SUPPORTED, Exit::Again),
    };
    registers.x[0] = result as u64;
    exit
}

/// Whether SYSTEM_SUSPEND is available: the VMM must want it.
fn suspends(machine: &Machine, version: u64) -> bool {
    version >= VERSION_1_0 && machine.suspends.load(Relaxed)
}

/// SYSTEM_RESET2 with the architectural warm reset, or a reset that the VMM defines.
fn reset2(kind: u64) -> (i64, Exit) {
    let kind = kind as u32;
    if kind == 0 || kind >> 31 != 0 {
        (INTERNAL_FAILURE, Exit::Reset2)
    } else {
        (INVALID_PARAMETERS, Exit::Again)
    }
}

fn start(directory: &Directory, affinity: u64, entry: u64, argument: u64) -> i64 {
    if affinity & !AFFINITY != 0 {
        return INVALID_PARAMETERS;
    }
    match directory.find(Affinity::from_mpidr(affinity)) {
        None => INVALID_PARAMETERS,
        Some(vcpu) if vcpu.start(entry, argument) => SUCCESS,
        Some(_) => ALREADY_ON,
    }
}

/// Whether a CPU that `affinity` names, from affinity level `level` on, is on.
fn info(directory: &Directory, affinity: u64, level: u64) -> i64 {
    if level > 3 || affinity & !AFFINITY != 0 {
        return INVALID_PARAMETERS;
    }
    let wanted = Affinity::from_mpidr(affinity);
    if level == 0 {
        return match directory.find(wanted) {
            None => INVALID_PARAMETERS,
            Some(vcpu) if vcpu.is_on() => ON,
            Some(_) => OFF,
        };
    }
    let matching = |vcpu: &&Arc<Vcpu>| vcpu.affinity().matches(wanted, level as u32);
    let mut named = directory.vcpus().iter().filter(matching).peekable();
    if named.peek().is_none() {
        return INVALID_PARAMETERS;
    }
    if named.any(|vcpu| vcpu.is_on()) {
        ON
    } else {
        OFF
    }
}

fn features(function: u32, version: u64) -> i64 {
    if function & !WIDE == SYSTEM_RESET2 && version >= VERSION_1_1 {
        return SUCCESS;
    }
    let both = [CPU_SUSPEND, CPU_ON, AFFINITY_INFO].contains(&(function & !WIDE));
    let one = [
        VERSION,
        CPU_OFF,
        MIGRATE_INFO_TYPE,
        SYSTEM_OFF,
        SYSTEM_RESET,
        FEATURES,
        smccc::VERSION,
    ];
    if both || one.contains(&function) {
        SUCCESS
    } else {
        NOT_SUPPORTED
    }
}
