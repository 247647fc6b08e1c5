//! System calls that create pipes and files that exist only in memory.

use super::path::check_flags;
use crate::errno::{Errno, Result};
use crate::fs::fdtable::Reserved;
use crate::fs::{eventfd, pipe, tmpfs};
use crate::mm::user::{UserPtr, read_cstr};
use crate::task::current;
use linux_raw_sys::general::*;

/// A pipe for kernel notifications (linux/watch_queue.h).
const O_NOTIFICATION_PIPE: u32 = O_EXCL;

/// The known flags; the list has the value of O_DIRECT on RISC-V.
const PIPE_FLAGS: u32 = O_CLOEXEC | O_NONBLOCK | O_DIRECT;
const _: () = assert!(
    abi::options::PIPE.mask() as u32 == PIPE_FLAGS & !O_DIRECT | 0o40000,
    "abi and pipe2 disagree"
);

/// pipe2(2)
pub fn pipe2(to: usize, flags: u32) -> Result<usize> {
    check_flags(flags, PIPE_FLAGS | O_NOTIFICATION_PIPE)?;
    // The error of a Linux without CONFIG_WATCH_QUEUE.
    if flags & O_NOTIFICATION_PIPE != 0 {
        return Err(Errno::ENOPKG);
    }
    let ends = pipe::pair(flags & O_NONBLOCK)?;
    let files = current().files();
    let fds = files.reserve_pair()?;
    UserPtr::new(to).write(&fds.each_ref().map(Reserved::number))?;
    for (fd, end) in fds.into_iter().zip(ends) {
        fd.install(end, flags & O_CLOEXEC != 0);
    }
    Ok(0)
}

/// eventfd2(2)
pub fn eventfd2(count: u32, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::EVENTFD.mask() as u32)?;
    let file = eventfd::new(count, flags)?;
    Ok(current().files().add(file, flags & EFD_CLOEXEC != 0)? as usize)
}

/// The bits of MFD_HUGETLB that select the size of huge pages (MFD_HUGE_MASK).
const HUGE_SIZES: u32 = 0x3f << 26;

/// memfd_create(2)
pub fn memfd_create(name: usize, flags: u32) -> Result<usize> {
    let huge = flags & MFD_HUGETLB != 0;
    let sizes = if huge { HUGE_SIZES } else { 0 };
    check_flags(
        flags,
        abi::options::MEMFD.mask() as u32 | MFD_HUGETLB | sizes,
    )?;
    let data = flags & MFD_NOEXEC_SEAL != 0;
    if data && flags & MFD_EXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let name = read_cstr(name, 250).map_err(|error| {
        if error == Errno::ENAMETOOLONG {
            Errno::EINVAL
        } else {
            error
        }
    })?;
    // The error of a Linux without CONFIG_HUGETLBFS.
    if huge {
        return Err(Errno::ENOSYS);
    }
    let (permissions, seals) = match flags & MFD_ALLOW_SEALING {
        _ if data => (0o666, F_SEAL_EXEC),
        0 => (0o777, F_SEAL_SEAL),
        _ => (0o777, 0),
    };
    let file = tmpfs::memory_file(&name, permissions, seals)?;
    Ok(current().files().add(file, flags & MFD_CLOEXEC != 0)? as usize)
}
