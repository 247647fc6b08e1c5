//! prctl(2) and personality(2).

use linux_raw_sys::prctl::*;
use linux_raw_sys::ptrace::{SECCOMP_MODE_FILTER, SECCOMP_MODE_STRICT};

use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::credentials::{ALL_CAPABILITIES, Credentials};
use crate::task::process::Mode;
use crate::task::{current, require, seccomp, signal};
use alloc::vec::Vec;
use linux_raw_sys::general::{CAP_SETPCAP, CAP_SYS_RESOURCE};

/// Capabilities that there are.
const CAPABILITIES: usize = ALL_CAPABILITIES.count_ones() as usize;

/// prctl(2)
pub fn prctl(option: u32, a: usize, b: usize, c: usize, d: usize) -> Result<usize> {
    let thread = current();
    let process = thread.process();
    match option {
        PR_SET_PDEATHSIG if a <= signal::LAST as usize => thread.set_death_signal(a as u32),
        PR_GET_PDEATHSIG => UserPtr::new(a).write(&thread.death_signal())?,
        PR_GET_DUMPABLE => return Ok(process.dumpable() as usize),
        PR_SET_DUMPABLE if a <= 1 => process.set_dumpable(a as u32),
        PR_SET_NAME => thread.set_name(&read_name(a)?),
        PR_GET_NAME => UserPtr::new(a).write(&thread.name())?,
        PR_SET_TIMERSLACK if a == 0 => thread.set_timer_slack(thread.default_slack()),
        PR_SET_TIMERSLACK => thread.set_timer_slack(a),
        PR_GET_TIMERSLACK => return Ok(thread.timer_slack()),
        PR_SET_CHILD_SUBREAPER => process.set_subreaper(a != 0),
        PR_GET_CHILD_SUBREAPER => UserPtr::new(a).write(&(process.is_subreaper() as u32))?,
        PR_SET_NO_NEW_PRIVS if (a, b, c, d) == (1, 0, 0, 0) => {
            process.change_credentials(|who| {
                who.no_new_privileges = true;
                Ok(())
            })?
        }
        PR_GET_NO_NEW_PRIVS if (a, b, c, d) == (0, 0, 0, 0) => {
            return Ok(process.with_credentials(|who| who.no_new_privileges) as usize);
        }
        PR_GET_KEEPCAPS => {
            return Ok(process.with_credentials(|who| who.keeps_capabilities) as usize);
        }
        PR_SET_KEEPCAPS if a <= 1 => process.change_credentials(|who| {
            who.keeps_capabilities = a == 1;
            Ok(())
        })?,
        PR_CAPBSET_READ if a < CAPABILITIES => {
            return Ok(process.with_credentials(|who| who.bounding >> a & 1) as usize);
        }
        PR_CAPBSET_DROP if a < CAPABILITIES => process.change_credentials(|who| {
            check_may_set(who)?;
            who.bounding &= !(1 << a);
            Ok(())
        })?,
        PR_GET_SECUREBITS => return Ok(process.with_credentials(|who| who.secure_bits()) as usize),
        PR_SET_SECUREBITS => {
            process.change_credentials(|who| who.set_secure_bits(a).ok_or(Errno::EPERM))?
        }
        PR_GET_SECCOMP => return Ok(thread.seccomp.mode() as usize),
        PR_SET_SECCOMP => return set_seccomp(a as u32, b),
        PR_GET_TIMING => return Ok(PR_TIMING_STATISTICAL as usize),
        PR_SET_TIMING if a == PR_TIMING_STATISTICAL as usize => {}
        PR_GET_TID_ADDRESS => UserPtr::new(a).write(&thread.own.with(|own| own.clear_tid))?,
        PR_GET_THP_DISABLE if (a, b, c, d) == (0, 0, 0, 0) => {
            return Ok(process.mode(Mode::NO_HUGE_PAGES).into());
        }
        PR_SET_THP_DISABLE if (b, c, d) == (0, 0, 0) => set_mode(Mode::NO_HUGE_PAGES, a != 0),
        PR_GET_MEMORY_MERGE if (a, b, c, d) == (0, 0, 0, 0) => {
            return Ok(process.mode(Mode::MERGE).into());
        }
        PR_SET_MEMORY_MERGE if (b, c, d) == (0, 0, 0) => set_mode(Mode::MERGE, a != 0),
        PR_GET_IO_FLUSHER | PR_SET_IO_FLUSHER => {
            require(CAP_SYS_RESOURCE)?;
            if (b, c, d) != (0, 0, 0) {
                return Err(Errno::EINVAL);
            }
            match (option, a) {
                (PR_GET_IO_FLUSHER, 0) => return Ok(process.mode(Mode::FLUSHER).into()),
                (PR_SET_IO_FLUSHER, 0 | 1) => set_mode(Mode::FLUSHER, a == 1),
                _ => return Err(Errno::EINVAL),
            }
        }
        PR_GET_MDWE if (a, b, c, d) == (0, 0, 0, 0) => {
            return Ok(process.mode(Mode::NO_WRITE_EXECUTE).into());
        }
        PR_SET_MDWE if a <= 1 && (b, c, d) == (0, 0, 0) => {
            if a == 0 && process.mode(Mode::NO_WRITE_EXECUTE) {
                return Err(Errno::EPERM);
            }
            set_mode(Mode::NO_WRITE_EXECUTE, a == 1);
        }
        PR_MCE_KILL if (c, d) == (0, 0) => memory_failure(a as u32, b as u32)?,
        PR_MCE_KILL_GET if (a, b, c, d) == (0, 0, 0, 0) => {
            let kept = process.modes() >> Mode::MEMORY_FAILURE_SHIFT & 3;
            return Ok((kept ^ PR_MCE_KILL_DEFAULT) as usize);
        }
        // Anyone of the same user may trace.
        PR_SET_PTRACER => {}
        PR_CAP_AMBIENT => return ambient(a as u32, b, c, d),
        PR_GET_AUXV if (c, d) == (0, 0) => return auxiliary(a, b),
        _ => return arch::prctl(option, a),
    }
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

/// PR_SET_SECCOMP: the old way to call seccomp(2).
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

/// PR_CAP_AMBIENT: capabilities that stay when a program without privileges is begun.
fn ambient(operation: u32, capability: usize, c: usize, d: usize) -> Result<usize> {
    let process = current().process();
    let any = operation == PR_CAP_AMBIENT_CLEAR_ALL;
    if c != 0 || d != 0 || any && capability != 0 || !any && capability >= CAPABILITIES {
        return Err(Errno::EINVAL);
    }
    let bit = 1 << capability;
    match operation {
        PR_CAP_AMBIENT_IS_SET => {
            return Ok(process
                .with_credentials(|who| who.ambient & bit != 0)
                .into());
        }
        PR_CAP_AMBIENT_CLEAR_ALL => process.change_credentials(|who| {
            who.ambient = 0;
            Ok(())
        })?,
        PR_CAP_AMBIENT_LOWER => process.change_credentials(|who| {
            who.ambient &= !bit;
            Ok(())
        })?,
        PR_CAP_AMBIENT_RAISE => process.change_credentials(|who| {
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

/// PR_MCE_KILL: what is kept is how it differs from the default.
fn memory_failure(operation: u32, policy: u32) -> Result<()> {
    let policy = match operation {
        PR_MCE_KILL_CLEAR if policy == 0 => PR_MCE_KILL_DEFAULT,
        PR_MCE_KILL_SET if policy <= PR_MCE_KILL_DEFAULT => policy,
        _ => return Err(Errno::EINVAL),
    };
    let shift = Mode::MEMORY_FAILURE_SHIFT;
    let kept = (policy ^ PR_MCE_KILL_DEFAULT) << shift;
    current().process().set_modes(3 << shift, kept);
    Ok(())
}

/// PR_GET_AUXV: as much of the auxiliary vector as there is room for; its length.
fn auxiliary(to: usize, room: usize) -> Result<usize> {
    let place = current().process().image().auxiliary;
    let mut vector = Vec::new();
    let reserved = vector.try_reserve_exact(place.len());
    reserved.map_err(|_| Errno::ENOMEM)?;
    vector.resize(place.len(), 0u8);
    UserSlice::new(place.start, place.len()).copy_in(&mut vector)?;
    UserSlice::new(to, room.min(vector.len())).copy_out(&vector[..room.min(vector.len())])?;
    Ok(place.len())
}

/// The first 15 bytes of a name, or fewer where a zero ends it.
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

/// What personality(2) takes for a question.
const ASK: u32 = u32::MAX;

/// personality(2)
pub fn personality(new: u32) -> Result<usize> {
    let process = current().process();
    let old = process.personality();
    if new != ASK {
        process.set_personality(new);
    }
    Ok(old as usize)
}
