//! System registers whose access traps: ID registers as guests see them, and registers that read as
//! zero and ignore writes.

use affinity::SgiRegister;

use super::context::Context;
use super::stats::ExitKind;
use super::vgic;
use crate::arch::virt::{self, Guest, Registers, Stage2, encoding, timer};
use crate::task::sched;

/// The fields of a trap's syndrome (Arm ARM, ESR_EL2, ISS encoding for an MSR or MRS).
struct Trapped {
    encoding: u16,
    register: usize,
    read: bool,
}

impl Trapped {
    fn of(syndrome: u64) -> Self {
        let part = |at: u32, bits: u32| (syndrome >> at & ((1 << bits) - 1)) as u16;
        Trapped {
            encoding: encoding(
                part(20, 2),
                part(14, 3),
                part(10, 4),
                part(1, 4),
                part(17, 3),
            ),
            register: Self::register(syndrome),
            read: syndrome & 1 != 0,
        }
    }

    #[inline]
    fn register(syndrome: u64) -> usize {
        (syndrome >> 5 & 31) as usize
    }
}

/// ACTLR_EL1.
const AUXILIARY: u16 = encoding(3, 0, 1, 0, 1);
/// OSLSR_EL1 and OSLAR_EL1: the OS lock.
pub const LOCK_STATUS: u16 = encoding(2, 0, 1, 1, 4);
const LOCK: u16 = encoding(2, 0, 1, 0, 4);

/// Writes of ICC_SGI1R_EL1, ICC_ASGI1R_EL1 and ICC_SGI0R_EL1 as they appear in a syndrome: op0 3,
/// op1 0, CRn 12, CRm 11, and op2 from 5 on.
const SGI: u64 = 3 << 20 | 12 << 10 | 11 << 1;
const SGI_MASK: u64 = 3 << 20 | 7 << 14 | 0xf << 10 | 0xf << 1 | 1;
const OP2: u32 = 17;

/// OSDTRRX_EL1, OSDTRTX_EL1 and OSECCR_EL1.
const EXTERNAL: [u16; 3] = [
    encoding(2, 0, 0, 0, 2),
    encoding(2, 0, 0, 3, 2),
    encoding(2, 0, 0, 6, 2),
];
/// MDSCR_EL1.
const DEBUG_CONTROL: u16 = encoding(2, 0, 0, 2, 2);
/// Breakpoints and watchpoints: op0 2, op1 0, CRn 0, op2 4 to 7.
const POINTS: u16 = encoding(2, 0, 0, 0, 4);

/// Registers that read as zero and ignore writes: those of error records (CRn 5, CRm 3 to 5) and of
/// LORegions (CRn 10, CRm 4), since guests have neither.
const ERROR_RECORDS: core::ops::Range<u16> = encoding(3, 0, 5, 3, 0)..encoding(3, 0, 5, 6, 0);
const REGIONS: core::ops::Range<u16> = encoding(3, 0, 10, 4, 0)..encoding(3, 0, 10, 5, 0);

/// DC ISW, CSW and CISW.
const SET_AND_WAY: [u16; 3] = [
    encoding(1, 0, 7, 6, 2),
    encoding(1, 0, 7, 10, 2),
    encoding(1, 0, 7, 14, 2),
];

/// Whether this is a debug register that reads as zero and ignores writes. OSDTRRX_EL1, OSDTRTX_EL1
/// and OSECCR_EL1 are for an external debugger, which guests do not have. Some implementations also
/// trap op0 2 registers that do not exist.
fn is_debug_register(encoding: u16) -> bool {
    let exists = encoding >> 14 == 2 && encoding >> 7 & 0xf <= 7;
    exists && !EXTERNAL.contains(&encoding)
}

/// Whether a trap is an access to a debug register, which guests are given on first use, or to the
/// OS lock.
#[inline]
pub fn is_debug(syndrome: u64) -> bool {
    // Almost all registers have op0 3, which no debug register has.
    if syndrome >> 20 & 3 == 3 {
        return false;
    }
    let encoding = Trapped::of(syndrome).encoding;
    [DEBUG_CONTROL, LOCK, LOCK_STATUS].contains(&encoding) || encoding & !(0xf << 3 | 3) == POINTS
}

/// Gives a guest its debug registers. While the VMM uses them, or they are locked, this performs
/// the guest's access on the saved copy.
pub fn debug(guest: &mut Guest) {
    let trapped = Trapped::of(guest.registers.syndrome);
    let (x, register) = (&mut guest.registers.x, trapped.register);
    if [LOCK, LOCK_STATUS].contains(&trapped.encoding) {
        match x.get_mut(register) {
            Some(x) if trapped.read => *x = guest.debug.lock_status(),
            None if trapped.read => {}
            x => guest.debug.set_lock(x.is_some_and(|x| *x & 1 != 0)),
        }
        return guest.registers.skip();
    }
    if !guest.debug.is_kept() {
        return guest.debug.give();
    }
    if let Some(place) = guest.debug.by_encoding(trapped.encoding) {
        match x.get_mut(register) {
            Some(x) if trapped.read => *x = *place,
            Some(x) => *place = *x,
            None if trapped.read => {}
            None => *place = 0,
        }
    }
    guest.registers.skip();
}

/// Whether a trap is cache maintenance by set and way, or a write that may turn the caches on or
/// off.
pub fn is_of_caches(syndrome: u64) -> bool {
    let Trapped { encoding, read, .. } = Trapped::of(syndrome);
    !read && (SET_AND_WAY.contains(&encoding) || virt::is_translation(encoding))
}

/// Performs that for the guest. May sleep.
pub fn caches(memory: &Stage2, guest: &mut Guest) {
    let trapped = Trapped::of(guest.registers.syndrome);
    let value = guest.registers.x.get(trapped.register).copied();
    let let_go = match SET_AND_WAY.contains(&trapped.encoding) {
        true => guest.clean_by_set_and_way(),
        false => guest.write_translation(trapped.encoding, value.unwrap_or(0)),
    };
    guest.registers.skip();
    if let_go {
        memory.write_all_to_memory(sched::cond_resched);
    }
}

/// Sends an SGI if a trapped access is a write to an SGI register.
#[inline(always)]
pub fn emulate_sgi(context: &Context, registers: &mut Registers, syndrome: u64) -> bool {
    if syndrome & SGI_MASK != SGI || context.gic.is_none() {
        return false;
    }
    let register = match syndrome >> OP2 & 7 {
        5 => SgiRegister::Sgi1r,
        6 => SgiRegister::Asgi1r,
        7 => SgiRegister::Sgi0r,
        _ => return false,
    };
    context.count(ExitKind::Sgi);
    let value = registers.x.get(Trapped::register(syndrome)).copied();
    vgic::send_sgi(
        context.directory,
        context.vcpu,
        register,
        value.unwrap_or(0),
    );
    registers.skip();
    true
}

/// Performs any other trapped access; false if guests do not have the register.
pub fn access(context: &mut Context, registers: &mut Registers) -> bool {
    let trapped = Trapped::of(registers.syndrome);
    context.count(ExitKind::Register);
    let written = registers.x.get(trapped.register).copied().unwrap_or(0);
    let written = (!trapped.read).then_some(written);
    let offset = context.config.offset;
    let features = context.machine.features().filter(|_| trapped.read);
    let identity = features.and_then(|features| features.identity(trapped.encoding));
    let value = match trapped.encoding {
        _ if let Some(value) = identity => value,
        id if id == encoding(3, 0, 0, 0, 5) && trapped.read => context.vcpu.mpidr(),
        AUXILIARY => 0,
        id if let Some(value) = timer::access_physical(registers, id, written, offset) => {
            if written.is_some() {
                // The interrupt's line may have fallen before the guest took it.
                context.refill();
            }
            value
        }
        none if ERROR_RECORDS.contains(&none) || REGIONS.contains(&none) => 0,
        debug if is_debug_register(debug) => 0,
        _ => return false,
    };
    if trapped.read && trapped.register < 31 {
        registers.x[trapped.register] = value;
    }
    true
}
