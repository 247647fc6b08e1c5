//! prctl(2) and personality(2).

use linux_raw_sys::prctl::*;
use linux_raw_sys::ptrace::{SECCOMP_MODE_FILTER, SECCOMP_MODE_STRICT};

use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::{ALL_CAPABILITIES, Credentials};
use crate::task::process::Mode;
use crate::task::thread::{TAGS_DISABLED, inherited};
use crate::task::{
    Thread, current, personality, require, seccomp, signal, speculation, with_space,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::{CAP_SETPCAP, CAP_SYS_RESOURCE};
use zerocopy::{Immutable, IntoBytes};

/// The number of capabilities.
const CAPABILITIES: usize = ALL_CAPABILITIES.count_ones() as usize;

/// Arguments after the option.
type Arguments = [usize; 4];
type Handler = fn(Arguments) -> Result<usize>;

/// Defines `handler`, which finds the function of an option, and compares the options with those of
/// `abi` at compile time.
macro_rules! dispatch {
    ($($option:ident => $handler:expr,)*) => {
        fn handler(option: u32) -> Option<Handler> {
            Some(match option {
                $($option => $handler,)*
                _ => return None,
            })
        }

        const _: () = assert!(
            abi::options::PRCTL.is_handled_by(&[$($option as u64),*]),
            "abi and the handlers disagree"
        );
    };
}

dispatch! {
    PR_SET_PDEATHSIG => set_death_signal,
    PR_GET_PDEATHSIG => |[to, ..]| put(to, current().death_signal()),
    PR_GET_DUMPABLE => |_| Ok(with_space(AddressSpace::dumpable) as usize),
    PR_SET_DUMPABLE => set_dumpable,
    PR_SET_NAME => |[from, ..]| {
        current().set_name(&read_name(from)?);
        Ok(0)
    },
    PR_GET_NAME => |[to, ..]| put(to, current().name()),
    PR_SET_TIMERSLACK => set_timer_slack,
    PR_GET_TIMERSLACK => |_| Ok(current().timer_slack()),
    PR_SET_CHILD_SUBREAPER => |[on, ..]| {
        current().process().set_subreaper(on != 0);
        Ok(0)
    },
    PR_GET_CHILD_SUBREAPER => |[to, ..]| put(to, current().process().is_subreaper() as u32),
    PR_SET_NO_NEW_PRIVS => set_no_new_privileges,
    PR_GET_NO_NEW_PRIVS => |arguments| {
        expect_zeros(&arguments)?;
        Ok(current().has_no_new_privileges().into())
    },
    PR_GET_KEEPCAPS => |_| Ok(current().with_credentials(|who| who.keeps_capabilities) as usize),
    PR_SET_KEEPCAPS => set_keeps_capabilities,
    PR_CAPBSET_READ => |[capability, ..]| {
        expect(capability < CAPABILITIES)?;
        Ok(current().with_credentials(|who| who.bounding >> capability & 1) as usize)
    },
    PR_CAPBSET_DROP => drop_from_bounding,
    PR_GET_SECUREBITS => |_| Ok(current().with_credentials(|who| who.secure_bits()) as usize),
    PR_SET_SECUREBITS => |[bits, ..]| {
        current().change_credentials(|who| who.set_secure_bits(bits).ok_or(Errno::EPERM))?;
        Ok(0)
    },
    PR_GET_SECCOMP => |_| Ok(current().seccomp.mode() as usize),
    PR_SET_SECCOMP => |[mode, program, ..]| set_seccomp(narrow(mode)?, program),
    PR_GET_TIMING => |_| Ok(PR_TIMING_STATISTICAL as usize),
    PR_SET_TIMING => |[kind, ..]| {
        expect(kind == PR_TIMING_STATISTICAL as usize)?;
        Ok(0)
    },
    PR_GET_TID_ADDRESS => |[to, ..]| put(to, current().own.with(|own| own.clear_tid)),
    PR_GET_THP_DISABLE => |arguments| mode(arguments, Mode::NO_HUGE_PAGES),
    PR_SET_THP_DISABLE => |[on, rest @ ..]| {
        expect_zeros(&rest)?;
        set_mode(Mode::NO_HUGE_PAGES, on != 0);
        Ok(0)
    },
    PR_GET_IO_FLUSHER => |arguments| {
        require(CAP_SYS_RESOURCE)?;
        expect_zeros(&arguments)?;
        Ok((current().inherited() & inherited::FLUSHER != 0).into())
    },
    PR_SET_IO_FLUSHER => set_flusher,
    PR_GET_MDWE => write_execute,
    PR_SET_MDWE => deny_write_execute,
    PR_SET_MM => set_memory_map,
    PR_MCE_KILL => set_memory_failure,
    PR_MCE_KILL_GET => |arguments| {
        expect_zeros(&arguments)?;
        let kept = current().inherited() >> inherited::MEMORY_FAILURE_SHIFT & 3;
        Ok((u32::from(kept) ^ PR_MCE_KILL_DEFAULT) as usize)
    },
    PR_CAP_AMBIENT => |[operation, capability, c, d]| {
        ambient(narrow(operation)?, capability, c, d)
    },
    PR_GET_AUXV => |[to, room, rest @ ..]| {
        expect_zeros(&rest)?;
        auxiliary(to, room)
    },
    PR_SVE_SET_VL => |[argument, ..]| arch::prctl(PR_SVE_SET_VL, argument),
    PR_SVE_GET_VL => |[argument, ..]| arch::prctl(PR_SVE_GET_VL, argument),
    PR_GET_SPECULATION_CTRL => |[which, rest @ ..]| {
        expect_zeros(&rest)?;
        speculation::control(&current(), which).map(|control| control as usize)
    },
    PR_SET_SPECULATION_CTRL => |[which, to, rest @ ..]| {
        expect_zeros(&rest)?;
        speculation::set_control(which, to).map(|()| 0)
    },
    PR_PAC_RESET_KEYS => |[keys, rest @ ..]| {
        expect_zeros(&rest)?;
        arch::prctl(PR_PAC_RESET_KEYS, keys)
    },
    PR_PAC_SET_ENABLED_KEYS => |[keys, enabled, rest @ ..]| {
        expect_zeros(&rest)?;
        arch::set_enabled_keys(keys, enabled)
    },
    PR_PAC_GET_ENABLED_KEYS => |arguments| {
        expect_zeros(&arguments)?;
        arch::prctl(PR_PAC_GET_ENABLED_KEYS, 0)
    },
    PR_SET_TAGGED_ADDR_CTRL => |[mode, rest @ ..]| {
        expect_zeros(&rest)?;
        set_tagged_addresses(&current(), mode).map(|()| 0)
    },
    PR_GET_TAGGED_ADDR_CTRL => |arguments| {
        expect_zeros(&arguments)?;
        expect(has_tags())?;
        Ok(tagged_addresses(&current()))
    },
    PR_RISCV_V_SET_CONTROL => |[argument, ..]| arch::prctl(PR_RISCV_V_SET_CONTROL, argument),
    PR_RISCV_V_GET_CONTROL => |[argument, ..]| arch::prctl(PR_RISCV_V_GET_CONTROL, argument),
}

/// prctl(2)
pub fn prctl(option: u32, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    handler(option).ok_or(Errno::EINVAL)?([a, b, c, d])
}

/// Whether the current program's addresses have room for a tag.
fn has_tags() -> bool {
    arch::ADDRESS_TAGS && !current().arch.is_compat()
}

/// The value of PR_GET_TAGGED_ADDR_CTRL for a thread.
pub fn tagged_addresses(thread: &Thread) -> usize {
    let enabled = usize::from(thread.tags_addresses()) * PR_TAGGED_ADDR_ENABLE as usize;
    enabled | arch::tag_checks(&thread.arch)
}

/// PR_SET_TAGGED_ADDR_CTRL for a thread.
///
/// # Errors
/// EINVAL.
pub fn set_tagged_addresses(thread: &Thread, mode: usize) -> Result<()> {
    let has_tags = arch::ADDRESS_TAGS && !thread.arch.is_compat();
    let enable = PR_TAGGED_ADDR_ENABLE as usize;
    let on = mode & enable != 0;
    expect(has_tags && !(on && TAGS_DISABLED.load(Relaxed) != 0))?;
    arch::set_tag_checks(&thread.arch, mode & !enable)?;
    thread.set_tags_addresses(on);
    Ok(())
}

/// EINVAL unless `fits`.
fn expect(fits: bool) -> Result<()> {
    if fits { Ok(()) } else { Err(Errno::EINVAL) }
}

/// An argument that must fit in 32 bits; EINVAL otherwise.
fn narrow(choice: usize) -> Result<u32> {
    choice.try_into().map_err(|_| Errno::EINVAL)
}

fn expect_zeros(arguments: &[usize]) -> Result<()> {
    expect(arguments.iter().all(|argument| *argument == 0))
}

fn put<T: IntoBytes + Immutable>(to: usize, value: T) -> Result<usize> {
    UserPtr::new(to).write(&value)?;
    Ok(0)
}

fn set_death_signal([signal, ..]: Arguments) -> Result<usize> {
    expect(signal <= signal::LAST as usize)?;
    current().set_death_signal(signal as u32);
    Ok(0)
}

fn set_dumpable([on, ..]: Arguments) -> Result<usize> {
    expect(on <= 1)?;
    with_space(|space| space.set_dumpable(on as u32));
    Ok(0)
}

fn set_timer_slack([slack, ..]: Arguments) -> Result<usize> {
    current().set_timer_slack(slack);
    Ok(0)
}

fn set_no_new_privileges(arguments: Arguments) -> Result<usize> {
    expect(arguments == [1, 0, 0, 0])?;
    current().set_no_new_privileges();
    Ok(0)
}

fn set_keeps_capabilities([keeps, ..]: Arguments) -> Result<usize> {
    expect(keeps <= 1)?;
    current().change_credentials(|who| who.keep_capabilities(keeps == 1).ok_or(Errno::EPERM))?;
    Ok(0)
}

fn drop_from_bounding([capability, ..]: Arguments) -> Result<usize> {
    current().change_credentials(|who| {
        check_may_set(who)?;
        expect(capability < CAPABILITIES)?;
        who.bounding &= !(1 << capability);
        Ok(())
    })?;
    Ok(0)
}

fn set_flusher([on, rest @ ..]: Arguments) -> Result<usize> {
    require(CAP_SYS_RESOURCE)?;
    expect_zeros(&rest)?;
    expect(on <= 1)?;
    set_inherited(inherited::FLUSHER, on == 1);
    Ok(0)
}

/// PR_GET_MDWE
fn write_execute(arguments: Arguments) -> Result<usize> {
    expect_zeros(&arguments)?;
    let set = |mode, bit: u32| {
        if current().process().mode(mode) {
            bit
        } else {
            0
        }
    };
    let refuses = set(Mode::NO_WRITE_EXECUTE, PR_MDWE_REFUSE_EXEC_GAIN);
    Ok((refuses | set(Mode::WRITE_EXECUTE_FOR_CHILD, PR_MDWE_NO_INHERIT)) as usize)
}

/// PR_SET_MDWE: a refused kind of mapping stays refused.
fn deny_write_execute([bits, rest @ ..]: Arguments) -> Result<usize> {
    let bits = u32::try_from(bits).map_err(|_| Errno::EINVAL)?;
    expect_zeros(&rest)?;
    expect(bits & !(PR_MDWE_REFUSE_EXEC_GAIN | PR_MDWE_NO_INHERIT) == 0)?;
    expect(bits != PR_MDWE_NO_INHERIT)?;
    let now = write_execute([0; 4])? as u32;
    if now != 0 && now != bits {
        return Err(Errno::EPERM);
    }
    let mode = |bit, mode| if bits & bit != 0 { mode } else { 0 };
    let refuses = mode(PR_MDWE_REFUSE_EXEC_GAIN, Mode::NO_WRITE_EXECUTE);
    let for_child = mode(PR_MDWE_NO_INHERIT, Mode::WRITE_EXECUTE_FOR_CHILD);
    set_mode(refuses | for_child, true);
    Ok(0)
}

/// EPERM without CAP_SETPCAP.
fn check_may_set(who: &Credentials) -> Result<()> {
    if who.can(CAP_SETPCAP) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// PR_SET_SECCOMP: the old form of seccomp(2).
fn set_seccomp(mode: u32, program: usize) -> Result<usize> {
    match mode {
        SECCOMP_MODE_STRICT => {
            seccomp::be_strict()?;
            Ok(0)
        }
        SECCOMP_MODE_FILTER => super::seccomp::set_filter(0, program),
        _ => Err(Errno::EINVAL),
    }
}

/// PR_CAP_AMBIENT: capabilities that are kept when an unprivileged program is executed.
fn ambient(operation: u32, capability: usize, c: usize, d: usize) -> Result<usize> {
    let thread = current();
    let any = operation == PR_CAP_AMBIENT_CLEAR_ALL;
    if c != 0 || d != 0 || any && capability != 0 || !any && capability >= CAPABILITIES {
        return Err(Errno::EINVAL);
    }
    let bit = 1 << capability;
    match operation {
        PR_CAP_AMBIENT_IS_SET => {
            return Ok(thread.with_credentials(|who| who.ambient & bit != 0).into());
        }
        PR_CAP_AMBIENT_CLEAR_ALL => thread.change_credentials(|who| {
            who.ambient = 0;
            Ok(())
        })?,
        PR_CAP_AMBIENT_LOWER => thread.change_credentials(|who| {
            who.ambient &= !bit;
            Ok(())
        })?,
        PR_CAP_AMBIENT_RAISE => thread.change_credentials(|who| {
            if !who.may_raise_ambient(bit) {
                return Err(Errno::EPERM);
            }
            who.ambient |= bit;
            Ok(())
        })?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn set_mode(mode: u32, on: bool) {
    current()
        .process()
        .set_modes(mode, if on { mode } else { 0 });
}

/// Sets or clears bits of the thread that its children inherit.
fn set_inherited(bits: u8, on: bool) {
    let (set, cleared) = if on { (bits, 0) } else { (0, bits) };
    current().change_inherited(set, cleared);
}

/// Returns a mode of the process; the other arguments must be zero.
fn mode(arguments: Arguments, mode: u32) -> Result<usize> {
    expect_zeros(&arguments)?;
    Ok(current().process().mode(mode).into())
}

/// PR_SET_MM, which privileged programs may call, but which is not supported: only exec sets the
/// addresses of a program's parts.
fn set_memory_map([part, _, more, last]: Arguments) -> Result<usize> {
    let takes_more = [PR_SET_MM_AUXV, PR_SET_MM_MAP, PR_SET_MM_MAP_SIZE].contains(&(part as u32));
    expect(last == 0 && (more == 0 || takes_more))?;
    require(CAP_SYS_RESOURCE)?;
    Err(Errno::EINVAL)
}

/// PR_MCE_KILL: the stored value is the difference from the default.
fn set_memory_failure([operation, policy, rest @ ..]: Arguments) -> Result<usize> {
    expect_zeros(&rest)?;
    let policy = match (narrow(operation)?, narrow(policy)?) {
        (PR_MCE_KILL_CLEAR, 0) => PR_MCE_KILL_DEFAULT,
        (PR_MCE_KILL_SET, policy @ ..=PR_MCE_KILL_DEFAULT) => policy,
        _ => return Err(Errno::EINVAL),
    };
    let shift = inherited::MEMORY_FAILURE_SHIFT;
    let kept = (policy ^ PR_MCE_KILL_DEFAULT) as u8;
    current().change_inherited(kept << shift, 3 << shift);
    Ok(0)
}

/// PR_GET_AUXV: copies as much of the auxiliary vector as there is room for; returns its length.
fn auxiliary(to: usize, room: usize) -> Result<usize> {
    let space = current().space();
    let place = space.map(|space| space.program().auxiliary);
    let place = place.unwrap_or_default();
    let mut vector = Vec::new();
    let reserved = vector.try_reserve_exact(place.len());
    reserved.map_err(|_| Errno::ENOMEM)?;
    vector.resize(place.len(), 0u8);
    UserSlice::new(place.start, place.len()).copy_in(&mut vector)?;
    UserSlice::new(to, room.min(vector.len())).copy_out(&vector[..room.min(vector.len())])?;
    Ok(place.len())
}

/// The first 15 bytes of a name, or fewer if a zero ends it.
fn read_name(address: usize) -> Result<[u8; 15]> {
    let mut name = [0; 15];
    for (at, byte) in name.iter_mut().enumerate() {
        *byte = UserPtr::<u8>::new(address).add(at).read()?;
        if *byte == 0 {
            break;
        }
    }
    Ok(name)
}

/// The argument with which personality(2) only reads.
const ASK: u32 = u32::MAX;

/// personality(2)
pub fn personality(new: u32) -> Result<usize> {
    let thread = current();
    let old = thread.personality();
    if new == ASK {
        return Ok(old as usize);
    }
    let compat = arch::ABIS.iter().find(|abi| !abi.is_64bit);
    if new & personality::KIND == personality::LINUX32
        && compat.is_some_and(|abi| !(abi.available)())
    {
        return Err(Errno::EINVAL);
    }
    thread.set_personality(new);
    Ok(old as usize)
}
