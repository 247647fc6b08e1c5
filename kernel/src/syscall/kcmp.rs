//! kcmp(2): whether two processes share something.

use core::cmp::Ordering;

use alloc::sync::Arc;

use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::epoll::Epoll;
use crate::mm::user::UserPtr;
use crate::task::ptrace_access::{self, By};
use crate::task::{Thread, pid_table};

/// The resources to compare (include/uapi/linux/kcmp.h).
const FILE: u32 = 0;
const MEMORY: u32 = 1;
const FILES: u32 = 2;
const FILE_SYSTEM: u32 = 3;
const HANDLERS: u32 = 4;
const IO: u32 = 5;
const UNDO: u32 = 6;
const WATCHED: u32 = 7;

const _: () = assert!(
    abi::options::KCMP.is_handled_by(&[
        FILE as u64,
        MEMORY as u64,
        FILES as u64,
        FILE_SYSTEM as u64,
        HANDLERS as u64,
        IO as u64,
        UNDO as u64,
        WATCHED as u64,
    ]),
    "abi and kcmp disagree"
);

/// kcmp(2): 0 for the same resource, else 1 or 2 by an arbitrary order.
pub fn kcmp(one: i32, two: i32, kind: u32, first: usize, second: usize) -> Result<usize> {
    let threads = [one, two].map(|tid| pid_table::thread(tid).ok_or(Errno::ESRCH));
    let [one, two] = threads;
    let (one, two) = (one?, two?);
    let (mut lower, mut higher) = (one.process(), two.process());
    if lower.pid() > higher.pid() {
        (lower, higher) = (higher, lower);
    }
    // In a fixed order, and only once for a single process, as exec would otherwise wait in
    // between.
    let _lower = lower.hold_program()?;
    let apart = !Arc::ptr_eq(lower, higher);
    let _higher = apart.then(|| higher.hold_program()).transpose()?;
    ptrace_access::check(one.process(), Some(&one), By::Real)?;
    ptrace_access::check(two.process(), Some(&two), By::Real)?;
    compare(&one, &two, kind, first, second)
}

fn compare(one: &Thread, two: &Thread, kind: u32, first: usize, second: usize) -> Result<usize> {
    let (a, b) = match kind {
        FILE => (
            address(&open(one, first as i32)?),
            address(&open(two, second as i32)?),
        ),
        WATCHED => {
            let slot = UserPtr::<[u32; 3]>::new(second).read()?;
            (address(&open(one, first as i32)?), watched(two, slot)?)
        }
        MEMORY => (shared(one.space()), shared(two.space())),
        FILES => (shared(one.try_files()), shared(two.try_files())),
        FILE_SYSTEM => (shared(one.try_fs()), shared(two.try_fs())),
        HANDLERS => (
            address(&one.process().signals.actions()),
            address(&two.process().signals.actions()),
        ),
        IO => (
            one.io_context().map_or(0, address),
            two.io_context().map_or(0, address),
        ),
        UNDO => (one.undo_address(), two.undo_address()),
        _ => return Err(Errno::EINVAL),
    };
    Ok(match a.cmp(&b) {
        Ordering::Equal => 0,
        Ordering::Less => 1,
        Ordering::Greater => 2,
    })
}

fn open(thread: &Thread, fd: i32) -> Result<Arc<File>> {
    let files = thread.try_files().ok_or(Errno::EBADF)?;
    files.get(fd)
}

/// The file of a member of an epoll set of `thread`, identified by a `struct kcmp_epoll_slot`: the
/// set, the descriptor by which the member was added, and an index among the members added by that
/// descriptor.
fn watched(thread: &Thread, [set, fd, which]: [u32; 3]) -> Result<usize> {
    let set = open(thread, set as i32)?.ops_as::<Epoll>();
    let member = set.ok_or(Errno::EINVAL)?.member(fd as i32, which as usize);
    Ok(address(&member.ok_or(Errno::ENOENT)?))
}

fn address<T: ?Sized>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of).cast::<u8>().addr()
}

fn shared<T: ?Sized>(of: Option<Arc<T>>) -> usize {
    of.as_ref().map_or(0, address)
}
