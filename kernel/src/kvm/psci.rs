//! Hypercalls: PSCI 1.1 (Arm DEN 0022) and the version of the calling convention (Arm DEN 0028).

use affinity::Affinity;

use super::context::Context;
use super::directory::Directory;
use super::exit::Exit;
use super::uapi::{EVENT_RESET, EVENT_SHUTDOWN};
use super::vcpu::Vcpu;
use crate::arch::virt::Registers;

/// Functions. Those that take addresses have a 64-bit form, with this bit.
const WIDE: u32 = 1 << 30;
const VERSION: u32 = 0x8400_0000;
const CPU_SUSPEND: u32 = 0x8400_0001;
const CPU_OFF: u32 = 0x8400_0002;
const CPU_ON: u32 = 0x8400_0003;
const AFFINITY_INFO: u32 = 0x8400_0004;
const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
const SYSTEM_OFF: u32 = 0x8400_0008;
const SYSTEM_RESET: u32 = 0x8400_0009;
const FEATURES: u32 = 0x8400_000a;
const CONVENTION_VERSION: u32 = 0x8000_0000;

/// Results.
const SUCCESS: i64 = 0;
const NOT_SUPPORTED: i64 = -1;
const INVALID_PARAMETERS: i64 = -2;
const ALREADY_ON: i64 = -4;
const INTERNAL_FAILURE: i64 = -6;
/// PSCI 1.1, and version 1.1 of the calling convention.
const VERSION_1_1: i64 = 1 << 16 | 1;
/// MIGRATE_INFO_TYPE: there is no trusted system that would have to be moved.
const NO_TRUSTED_SYSTEM: i64 = 2;
/// AFFINITY_INFO.
const ON: i64 = 0;
const OFF: i64 = 1;

/// Affinity fields of MPIDR_EL1.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The last function of PSCI that is known, from VERSION on.
const LAST: u32 = VERSION + 0x1f;

/// Does what the guest asks for in its registers.
#[inline]
pub fn call(context: &mut Context, registers: &mut Registers) -> Exit {
    let function = registers.x[0] as u32;
    if !(VERSION..=LAST).contains(&(function & !WIDE)) && function != CONVENTION_VERSION {
        registers.x[0] = NOT_SUPPORTED as u64;
        return Exit::Again;
    }
    known(context, registers, function)
}

#[inline(never)]
fn known(context: &mut Context, registers: &mut Registers, function: u32) -> Exit {
    let width = if function & WIDE == 0 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    let [first, second, third] = [1, 2, 3].map(|at| registers.x[at] & width);
    let (result, exit) = match function {
        VERSION | CONVENTION_VERSION => (VERSION_1_1, Exit::Again),
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
        SYSTEM_OFF => (INTERNAL_FAILURE, Exit::Event(EVENT_SHUTDOWN)),
        SYSTEM_RESET => (INTERNAL_FAILURE, Exit::Event(EVENT_RESET)),
        FEATURES => (features(first as u32), Exit::Again),
        _ => (NOT_SUPPORTED, Exit::Again),
    };
    registers.x[0] = result as u64;
    exit
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

/// Whether a CPU that `affinity` names, from level `level` of it on, is on.
fn info(directory: &Directory, affinity: u64, level: u64) -> i64 {
    if level > 3 || affinity & !AFFINITY != 0 {
        return INVALID_PARAMETERS;
    }
    let wanted = Affinity::from_mpidr(affinity);
    let matching = |vcpu: &&alloc::sync::Arc<Vcpu>| matches(vcpu, wanted, level as u32);
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

fn matches(vcpu: &Vcpu, wanted: Affinity, level: u32) -> bool {
    Affinity::from_mpidr(vcpu.affinity).matches(wanted, level)
}

fn features(function: u32) -> i64 {
    let both = [CPU_SUSPEND, CPU_ON, AFFINITY_INFO].contains(&(function & !WIDE));
    let one = [
        VERSION,
        CPU_OFF,
        MIGRATE_INFO_TYPE,
        SYSTEM_OFF,
        SYSTEM_RESET,
        FEATURES,
        CONVENTION_VERSION,
    ];
    if both || one.contains(&function) {
        SUCCESS
    } else {
        NOT_SUPPORTED
    }
}
