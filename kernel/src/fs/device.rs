//! Device nodes: the driver of each device number, and the memory devices.

use super::file::{self, File, FileOps, OpenFlags, Whence};
use super::inode::Kind;
use super::io::{Sink, Source};
use super::path::Path;
use super::poll::{Events, PollTable};
use super::{kmsg, trace, tty};
use crate::arch;
use crate::block;
use crate::errno::{Errno, Result};
#[cfg(guests)]
use crate::kvm;
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::mm::user::{UserPtr, UserSlice};
use crate::random;
use crate::task::sched::cond_resched_interruptible;
use crate::task::{oom, require};
use alloc::sync::Arc;
use linux_raw_sys::general::CAP_SYS_ADMIN;
use linux_raw_sys::ioctl::{
    RNDADDENTROPY, RNDADDTOENTCNT, RNDCLEARPOOL, RNDGETENTCNT, RNDRESEEDCRNG, RNDZAPENTCNT,
};

/// A device number made of its parts, as by Linux's `new_encode_dev`.
pub const fn number(major: u32, minor: u32) -> u64 {
    ((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)) as u64
}

/// The parts of a device number.
pub const fn split(number: u64) -> (u32, u32) {
    let number = number as u32;
    (number >> 8 & 0xfff, number & 0xff | number >> 12 & !0xff)
}

/// The initial names in /dev: name, major, minor, permissions.
pub const NODES: [(&str, u32, u32, u32); 13] = [
    ("null", 1, 3, 0o666),
    ("zero", 1, 5, 0o666),
    ("full", 1, 7, 0o666),
    ("random", 1, 8, 0o666),
    ("urandom", 1, 9, 0o666),
    ("kmsg", 1, 11, 0o644),
    ("tty", 5, 0, 0o666),
    ("console", 5, 1, 0o600),
    ("ptmx", 5, 2, 0o666),
    ("ttyAMA0", 204, 64, 0o600),
    ("ttyS0", 4, 64, 0o600),
    ("hvc0", 229, 0, 0o600),
    // A number for local use.
    ("trace", 240, 0, 0o600),
];

/// The node of the hypervisor, if there is one.
pub const HYPERVISOR: (&str, u32, u32, u32) = ("kvm", 10, 232, 0o660);

/// Whether this machine's CPUs can run guests, once they are up.
pub fn has_hypervisor() -> bool {
    arch::virt::available()
}

/// Opens the device `device`, whose node is at `here`.
pub fn open(here: &Path, kind: Kind, device: u64, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    if kind == Kind::Block {
        return block::file::open(device, flags);
    }
    let memory = match split(device) {
        (1, 3) => Memory::Null,
        (1, 5) => Memory::Zero,
        (1, 7) => Memory::Full,
        (1, 8 | 9) => Memory::Random,
        (1, 11) => return kmsg::open(flags),
        #[cfg(guests)]
        (10, 232) if has_hypervisor() => return kvm::open(),
        (240, 0) => return trace::open(),
        (major, minor) => return tty::open(here, major, minor, flags),
    };
    Ok(try_arc(memory)?)
}

/// The devices of major number 1.
enum Memory {
    Null,
    Zero,
    Full,
    Random,
}

impl FileOps for Memory {
    fn has_async(&self) -> bool {
        matches!(self, Memory::Random)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn has_places(&self) -> bool {
        true
    }

    fn read(&self, _file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        match self {
            Memory::Null => Ok(0),
            Memory::Zero | Memory::Full => pieces(to, |to| to.put_zeros(PAGE_SIZE)),
            Memory::Random => pieces(to, put_random),
        }
    }

    fn write(&self, _file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        match self {
            Memory::Full => Err(Errno::ENOSPC),
            _ => Ok(from.skip(from.left())),
        }
    }

    fn seek(&self, _file: &File, _position: u64, _offset: i64, _whence: Whence) -> Result<u64> {
        Ok(0)
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        match self {
            Memory::Random => control_random(request, argument).map(|()| 0),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn can_poll(&self, _file: &File) -> bool {
        matches!(self, Memory::Random)
    }

    fn poll(&self, _file: &File, _table: Option<&mut PollTable>) -> Events {
        match self {
            // As on Linux, which awaits writes only while there is no entropy.
            Memory::Random => Events::IN,
            _ => Events::IN | Events::OUT,
        }
    }

    fn memory(&self) -> file::Memory<'_> {
        match self {
            Memory::Zero => file::Memory::Zeroes,
            _ => file::Memory::None,
        }
    }
}

/// Fills `to` piece by piece with `put`, until one is short or a signal is due.
fn pieces(to: &mut Sink, put: impl Fn(&mut Sink) -> Result<usize>) -> Result<usize> {
    let mut total = 0;
    while to.left() > 0 {
        match put(to) {
            Ok(count) => total += count,
            Err(error) if total == 0 => return Err(error),
            Err(Errno::ENOMEM) if oom::make_room() => {}
            Err(_) => break,
        }
        if cond_resched_interruptible().is_err() {
            break;
        }
    }
    Ok(total)
}

/// ioctl(2) requests of the random devices. The amount of credited entropy does not matter: there
/// is always enough.
fn control_random(request: u32, argument: usize) -> Result<()> {
    let number = UserPtr::<i32>::new(argument);
    if request == RNDGETENTCNT {
        return number.write(&(random::POOL as i32));
    }
    if ![
        RNDADDTOENTCNT,
        RNDADDENTROPY,
        RNDZAPENTCNT,
        RNDCLEARPOOL,
        RNDRESEEDCRNG,
    ]
    .contains(&request)
    {
        return Err(Errno::EINVAL);
    }
    require(CAP_SYS_ADMIN)?;
    if matches!(request, RNDADDTOENTCNT | RNDADDENTROPY) && number.read()? < 0 {
        return Err(Errno::EINVAL);
    }
    match request {
        RNDADDENTROPY => {
            let len = number.add(1).read()?;
            let len = usize::try_from(len).map_err(|_| Errno::EFAULT)?;
            take_entropy(argument + 2 * size_of::<i32>(), len)?;
        }
        RNDRESEEDCRNG => random::seed(&[]),
        _ => {}
    }
    Ok(())
}

/// Mixes in a program's bytes at `from`.
///
/// # Errors
/// EFAULT: not all of them could be read.
fn take_entropy(from: usize, len: usize) -> Result<()> {
    let mut bytes = [0; 256];
    for at in (0..len).step_by(bytes.len()) {
        let piece = &mut bytes[..(len - at).min(256)];
        UserSlice::new(from + at, piece.len()).copy_in(piece)?;
        random::seed(piece);
        let is_last = at + bytes.len() >= len;
        if cond_resched_interruptible().is_err() && !is_last && at % PAGE_SIZE == 0 {
            return Err(Errno::EFAULT);
        }
    }
    Ok(())
}

fn put_random(to: &mut Sink) -> Result<usize> {
    let mut bytes = [0; 256];
    let len = to.left().min(bytes.len());
    random::fill(&mut bytes[..len]);
    to.put(&bytes[..len])
}
