//! prctl(2) and personality(2).

use linux_raw_sys::prctl::*;
use linux_raw_sys::ptrace::{SECCOMP_MODE_FILTER, SECCOMP_MODE_STRICT};

use crate::arch;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::task::credentials::{ALL_CAPABILITIES, Credentials};
use crate::task::{current, seccomp, signal};
use linux_raw_sys::general::CAP_SETPCAP;

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
        PR_GET_SECUREBITS => return Ok(process.with_credentials(|who| who.secure_bits) as usize),
        PR_SET_SECUREBITS => process.change_credentials(|who| {
            check_may_set(who)?;
            who.secure_bits = a as u32;
            Ok(())
        })?,
        PR_GET_SECCOMP => return Ok(thread.seccomp.mode() as usize),
        PR_SET_SECCOMP => return set_seccomp(a as u32, b),
        PR_GET_TIMING => return Ok(PR_TIMING_STATISTICAL as usize),
        PR_SET_TIMING if a == PR_TIMING_STATISTICAL as usize => {}
        PR_GET_TID_ADDRESS => UserPtr::new(a).write(&thread.own.with(|own| own.clear_tid))?,
        PR_GET_THP_DISABLE if (a, b, c, d) == (0, 0, 0, 0) => return Ok(0),
        PR_SET_THP_DISABLE if (b, c, d) == (0, 0, 0) => {}
        PR_CAP_AMBIENT => return ambient(a as u32, b, c, d),
        // A name for an anonymous mapping: /proc/PID/maps shows none.
        PR_SET_VMA => {}
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

/// There are no ambient capabilities: they can be asked for and cleared.
fn ambient(operation: u32, capability: usize, c: usize, d: usize) -> Result<usize> {
    let fits = c == 0 && d == 0;
    match operation {
        PR_CAP_AMBIENT_CLEAR_ALL if fits && capability == 0 => Ok(0),
        PR_CAP_AMBIENT_IS_SET | PR_CAP_AMBIENT_LOWER if fits && capability < CAPABILITIES => Ok(0),
        PR_CAP_AMBIENT_RAISE if fits && capability < CAPABILITIES => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
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
