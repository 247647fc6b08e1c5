//! System calls on the whole machine.

use linux_raw_sys::general::{CAP_SYS_ADMIN, CAP_SYS_BOOT, GRND_INSECURE, GRND_RANDOM};
use zerocopy::{Immutable, IntoBytes};

use super::file;
use super::path::check_flags;
use crate::arch;
use crate::drivers::virtio_console;
use crate::errno::{Errno, Result};
use crate::fs::io::IoVec;
use crate::mm::user::{UserPtr, UserSlice, read_cstr};
use crate::mm::{PAGE_SIZE, frame};
use crate::random;
use crate::task::clock::{self, SECOND};
use crate::task::{current, loadavg, personality, require, sched, uts};

/// uname(2)
pub fn uname(to: usize) -> Result<usize> {
    let [host, domain] = uts::names();
    let release = if personality::has(personality::UNAME26) {
        uts::RELEASE_26
    } else {
        uts::RELEASE
    };
    let kind = current().personality() & personality::KIND;
    let machine = if kind == personality::LINUX32 {
        arch::UTS_MACHINE_32
    } else {
        arch::UTS_MACHINE
    };
    let [system, release, version, machine] =
        [uts::SYSTEM, release, uts::VERSION, machine].map(uts::field);
    UserPtr::new(to).write(&[system, host, release, version, machine, domain])?;
    Ok(0)
}

fn read_name(from: usize, len: usize, set: fn(&[u8]) -> Result<()>) -> Result<usize> {
    require(CAP_SYS_ADMIN)?;
    let mut name = [0; uts::FIELD];
    let name = name.get_mut(..len).ok_or(Errno::EINVAL)?;
    UserSlice::new(from, len).copy_in(name)?;
    set(name)?;
    Ok(0)
}

/// sethostname(2)
pub fn sethostname(from: usize, len: usize) -> Result<usize> {
    read_name(from, len, uts::set_host_name)
}

/// setdomainname(2)
pub fn setdomainname(from: usize, len: usize) -> Result<usize> {
    read_name(from, len, uts::set_domain)
}

/// `struct sysinfo` (include/uapi/linux/sysinfo.h).
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct SystemInformation {
    uptime: u64,
    loads: [u64; 3],
    memory: [u64; 2],
    shared: u64,
    buffers: u64,
    swap: [u64; 2],
    processes: u16,
    pad: [u16; 3],
    high: [u64; 2],
    unit: u32,
    rest: u32,
}

/// sysinfo(2)
pub fn sysinfo(to: usize) -> Result<usize> {
    let page = crate::mm::PAGE_SIZE;
    let information = SystemInformation {
        uptime: clock::monotonic_ns() / SECOND,
        loads: loadavg::averages().map(|load| load << (16 - loadavg::SHIFT)),
        memory: [frame::total(), frame::free_count()].map(|frames| (frames * page) as u64),
        shared: 0,
        buffers: 0,
        swap: [0; 2],
        processes: sched::threads().min(u16::MAX.into()) as u16,
        pad: [0; 3],
        high: [0; 2],
        unit: 1,
        rest: 0,
    };
    UserPtr::new(to).write(&information)?;
    Ok(0)
}

/// getrandom(2)
pub fn getrandom(to: usize, len: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::GETRANDOM.mask() as u32)?;
    if flags & (GRND_RANDOM | GRND_INSECURE) == GRND_RANDOM | GRND_INSECURE {
        return Err(Errno::EINVAL);
    }
    let piece = IoVec { base: to, len }.import()?;
    let target = UserSlice::new(piece.base, piece.len);
    let mut done = 0;
    let mut bytes = [0; 256];
    while done < target.len() {
        let part = bytes.len().min(target.len() - done);
        random::fill(&mut bytes[..part]);
        let copied = target.skip(done).copy_out_part(&bytes[..part]);
        done += copied;
        if copied < part {
            return if done == 0 {
                Err(Errno::EFAULT)
            } else {
                Ok(done)
            };
        }
        if done % PAGE_SIZE == 0 && sched::cond_resched_interruptible().is_err() {
            break;
        }
    }
    Ok(done)
}

/// The magic numbers of reboot(2), a safeguard.
const MAGIC: (u32, [u32; 4]) = (
    0xfee1_dead,
    [672_274_793, 85_072_278, 369_367_448, 537_993_216],
);
const RESTART: u32 = 0x0123_4567;
const RESTART_WITH: u32 = 0xa1b2_c3d4;
/// The maximum length of a text for the firmware.
const FIRMWARE_TEXT: usize = 256;
const HALT: u32 = 0xcdef_0123;
const POWER_OFF: u32 = 0x4321_fedc;
/// The commands for Ctrl-Alt-Del, which restarts the machine or signals process 1: there is no such
/// key here.
const KEYS: [u32; 2] = [0x89ab_cdef, 0];

const _: () = assert!(
    abi::options::REBOOT.is_handled_by(&[
        RESTART as u64,
        RESTART_WITH as u64,
        HALT as u64,
        POWER_OFF as u64,
        KEYS[0] as u64,
        KEYS[1] as u64,
    ]),
    "abi and reboot disagree"
);

/// reboot(2)
pub fn reboot(first: u32, second: u32, command: u32, argument: usize) -> Result<usize> {
    require(CAP_SYS_BOOT)?;
    if first != MAGIC.0 || !MAGIC.1.contains(&second) {
        return Err(Errno::EINVAL);
    }
    if command == RESTART_WITH {
        // The argument of LINUX_REBOOT_CMD_RESTART2, which no firmware here uses.
        read_cstr(argument, FIRMWARE_TEXT)?;
    }
    match command {
        RESTART | RESTART_WITH => {
            file::sync()?;
            virtio_console::flush();
            arch::power::reset()
        }
        HALT | POWER_OFF => {
            file::sync()?;
            virtio_console::flush();
            arch::power::off()
        }
        _ if KEYS.contains(&command) => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
