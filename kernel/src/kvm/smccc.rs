//! Hypercalls that are not PSCI's: of the calling convention (Arm DEN 0028), random numbers (Arm
//! DEN 0098), stolen time (Arm DEN 0057), and the hypervisor's identity.

use super::context::Context;
use super::exit::Exit;
use super::firmware::Service;
use super::psci::NOT_SUPPORTED;
use crate::arch::time;
use crate::arch::virt::Registers;
use crate::random;
use crate::task::clock;

/// Function numbers.
pub const VERSION: u32 = 0x8000_0000;
const FEATURES: u32 = 0x8000_0001;
const RANDOM_VERSION: u32 = 0x8400_0050;
const RANDOM_FEATURES: u32 = 0x8400_0051;
const RANDOM_IDENTITY: u32 = 0x8400_0052;
const RANDOM_32: u32 = 0x8400_0053;
const RANDOM_64: u32 = 0xc400_0053;
const TIME_FEATURES: u32 = 0xc500_0020;
const TIME_STOLEN: u32 = 0xc500_0021;
pub const MAKER: u32 = 0x8600_ff01;
const MAKERS_FEATURES: u32 = 0x8600_0000;
const CLOCK: u32 = 0x8600_0001;

/// Version 1.1 of the calling convention; version 1.0 of random numbers.
const VERSION_1_1: u64 = 1 << 16 | 1;
const RANDOM_VERSION_1_0: u64 = 1 << 16;
const SUCCESS: u64 = 0;
const INVALID: u64 = -2i64 as u64;
/// The UIDs of the hypervisor and of the TRNG, those of Linux's KVM.
const KVM: [u32; 4] = [0xb66f_b428, 0xe911_c52e, 0x564b_caa9, 0x743a_004d];
const SOURCE: [u32; 4] = [0x00e0_210d, 0xeb11_8443, 0x4452_7080, 0x4c5a_4e55];
/// The maximum number of random bits per call.
const MOST_BITS: u64 = 192;

/// All bits of the functions, without [`MAKER`].
pub const LAST: u32 = VERSION
    | FEATURES
    | RANDOM_VERSION
    | RANDOM_FEATURES
    | RANDOM_IDENTITY
    | RANDOM_64
    | RANDOM_32
    | TIME_FEATURES
    | TIME_STOLEN
    | MAKERS_FEATURES
    | CLOCK;

/// The service that a function belongs to; None if all guests have it.
fn service(function: u32) -> Option<Service> {
    Some(match function {
        RANDOM_VERSION..=RANDOM_32 | RANDOM_64 => Service::Random,
        TIME_FEATURES | TIME_STOLEN => Service::StolenTime,
        MAKER | MAKERS_FEATURES => Service::Features,
        CLOCK => Service::Clock,
        _ => return None,
    })
}

/// Performs a call; unknown ones are refused.
pub fn call(context: &mut Context, registers: &mut Registers, function: u32) -> Exit {
    let asked = registers.x[1] as u32;
    let services = &context.machine.services;
    let has = |function| service(function).is_none_or(|service| services.has(service));
    registers.x[0] = match function {
        _ if !has(function) => NOT_SUPPORTED as u64,
        VERSION => VERSION_1_1,
        FEATURES if asked == TIME_FEATURES && has(asked) => SUCCESS,
        RANDOM_VERSION => RANDOM_VERSION_1_0,
        RANDOM_FEATURES => match asked {
            RANDOM_VERSION | RANDOM_FEATURES | RANDOM_IDENTITY | RANDOM_32 | RANDOM_64 => SUCCESS,
            _ => NOT_SUPPORTED as u64,
        },
        RANDOM_IDENTITY => return four(registers, SOURCE),
        RANDOM_32 => return bits(registers, 32),
        RANDOM_64 => return bits(registers, 64),
        TIME_FEATURES
            if matches!(asked, TIME_FEATURES | TIME_STOLEN) && context.config.stolen_time =>
        {
            SUCCESS
        }
        TIME_STOLEN => return Exit::StolenTime,
        MAKER => return four(registers, KVM),
        MAKERS_FEATURES => {
            registers.x[1..4].fill(0);
            services.vendor_bits()
        }
        CLOCK => return clock(context, registers, asked),
        _ => NOT_SUPPORTED as u64,
    };
    Exit::Again
}

/// Returns the host's time (CLOCK_REALTIME) and the guest's counter that `asked` names, upper
/// halves first.
fn clock(context: &Context, registers: &mut Registers, asked: u32) -> Exit {
    const VIRTUAL: u32 = 0;
    const PHYSICAL: u32 = 1;
    let (now, ticks) = (clock::realtime_ns(), time::now_ticks());
    let offsets = context.machine.counters.offsets();
    let offset = match asked {
        VIRTUAL => offsets.virt,
        PHYSICAL => offsets.phys,
        _ => {
            registers.x[0] = NOT_SUPPORTED as u64;
            return Exit::Again;
        }
    };
    let counter = ticks.wrapping_sub(offset);
    four(
        registers,
        [now >> 32, now, counter >> 32, counter].map(|word| word as u32),
    )
}

fn four(registers: &mut Registers, words: [u32; 4]) -> Exit {
    for (place, word) in registers.x.iter_mut().zip(words) {
        *place = word.into();
    }
    Exit::Again
}

/// Returns as many random bits as asked for in three registers of `width` bits; the last bits are
/// in the last register.
fn bits(registers: &mut Registers, width: u32) -> Exit {
    let count = registers.x[1] & u64::from(u32::MAX);
    if count > MOST_BITS / (64 / u64::from(width)) {
        registers.x[0] = INVALID;
        return Exit::Again;
    }
    let mut left = count as u32;
    registers.x[0] = SUCCESS;
    for at in (1..4).rev() {
        let here = left.min(width);
        registers.x[at] = random::u64() & u64::MAX.unbounded_shr(64 - here);
        left -= here;
    }
    Exit::Again
}
