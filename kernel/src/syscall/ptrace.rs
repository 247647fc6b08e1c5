//! ptrace(2), and the memory of other processes.

use alloc::vec::Vec;

use linux_raw_sys::general::{CAP_SYS_ADMIN, CAP_SYS_PTRACE, SIGKILL};
use linux_raw_sys::ptrace::*;

use super::layout::Layout;
use super::path::check_flags;
use super::prctl::{set_tagged_addresses, tagged_addresses};
use crate::arch::{self, regset};
use crate::errno::{Errno, Result};
use crate::fs::io::{IoVec, MAX_COUNT};
use crate::mm::frame::TAG_GRANULE;
use crate::mm::heap::try_vec;
use crate::mm::user::{UserPtr, UserSlice, access_ok};
use crate::mm::{AddressSpace, PAGE_SIZE};
use crate::task::ptrace::{self, Call, flag};
use crate::task::ptrace_access::{self, By};
use crate::task::signal::{self, Info};
use crate::task::{Thread, can, current, pid_table};
use alloc::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// ptrace(2)
pub fn ptrace<L: Layout>(request: usize, tid: i32, address: usize, data: usize) -> Result<usize> {
    let request = u32::try_from(request).map_err(|_| Errno::EIO)?;
    match request {
        PTRACE_TRACEME => ptrace::trace_me()?,
        PTRACE_ATTACH => ptrace::attach(tid, false, 0)?,
        PTRACE_SEIZE if address != 0 => return Err(Errno::EIO),
        PTRACE_SEIZE => ptrace::attach(tid, true, data)?,
        PTRACE_INTERRUPT => ptrace::interrupt(tid)?,
        PTRACE_LISTEN => ptrace::listen(tid)?,
        PTRACE_DETACH => ptrace::detach(tid, data)?,
        PTRACE_CONT => ptrace::resume(tid, data, 0)?,
        PTRACE_SYSCALL => ptrace::resume(tid, data, flag::CALLS)?,
        PTRACE_SINGLESTEP => ptrace::resume(tid, data, flag::STEP)?,
        PTRACE_KILL => kill(tid)?,
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA => {
            let mut bytes = [0; size_of::<usize>()];
            let word = &mut bytes[..L::WORD];
            if stopped_space(tid)?.read(address, word)? < word.len() {
                return Err(Errno::EIO);
            }
            UserSlice::new(data, L::WORD).copy_out(word)?;
        }
        PTRACE_POKETEXT | PTRACE_POKEDATA => {
            let bytes = data.to_ne_bytes();
            let word = &bytes[..L::WORD];
            if stopped_space(tid)?.poke(address, word)? < word.len() {
                return Err(Errno::EIO);
            }
        }
        PTRACE_GETREGSET | PTRACE_SETREGSET => registers::<L>(request, tid, address, data)?,
        PTRACE_PEEKMTETAGS | PTRACE_POKEMTETAGS if L::WORD == size_of::<usize>() => {
            memory_tags::<L>(tid, address, data, request == PTRACE_POKEMTETAGS)?;
        }
        PTRACE_SETOPTIONS => {
            ptrace::check_options(data)?;
            ptrace::with_stopped(tid, |_, tracee| {
                tracee.options = data as u32;
                Ok(())
            })?;
        }
        PTRACE_GETEVENTMSG => {
            let message = ptrace::with_stopped(tid, |_, tracee| Ok(tracee.message))?;
            L::put_words(data, &[message as usize])?;
        }
        PTRACE_GETSIGINFO => {
            let info = ptrace::with_stopped(tid, |_, tracee| tracee.info.ok_or(Errno::EINVAL))?;
            L::put_info(data, &info)?;
        }
        PTRACE_SETSIGINFO => {
            let info = L::info(data)?;
            ptrace::with_stopped(tid, |_, tracee| {
                let old = tracee.info.as_mut().ok_or(Errno::EINVAL)?;
                *old = info;
                Ok(())
            })?;
        }
        PTRACE_GETSIGMASK | PTRACE_SETSIGMASK => {
            if address != size_of::<u64>() {
                return Err(Errno::EINVAL);
            }
            if request == PTRACE_GETSIGMASK {
                let mask = ptrace::with_stopped(tid, |thread, _| Ok(thread.blocked()))?;
                UserPtr::new(data).write(&mask)?;
            } else {
                let mask = UserPtr::<u64>::new(data).read()?;
                ptrace::with_stopped(tid, |thread, _| {
                    signal::set_blocked_of(thread, mask);
                    Ok(())
                })?;
            }
        }
        PTRACE_PEEKSIGINFO => return peek_signals::<L>(tid, address, data),
        PTRACE_SECCOMP_GET_FILTER => return filter(tid, address, data),
        PTRACE_SECCOMP_GET_METADATA => return filter_metadata(tid, address, data),
        PTRACE_GET_SYSCALL_INFO => return call_info(tid, address, data),
        PTRACE_GET_RSEQ_CONFIGURATION => return rseq_configuration(tid, address, data),
        _ => {
            // Even for an unknown request, the caller must trace the thread.
            ptrace::with_stopped(tid, |_, _| Ok(()))?;
            return Err(Errno::EIO);
        }
    }
    Ok(0)
}

/// PTRACE_PEEKSIGINFO: copies pending signals of the thread or its process; `asked` is a `struct
/// ptrace_peeksiginfo_args`.
fn peek_signals<L: Layout>(tid: i32, asked: usize, to: usize) -> Result<usize> {
    ptrace::with_stopped(tid, |_, _| Ok(()))?;
    let [first, packed] = UserPtr::<[u64; 2]>::new(asked).read()?;
    let (flags, most) = (packed as u32, (packed >> 32) as i32);
    check_flags(flags, PTRACE_PEEKSIGINFO_SHARED)?;
    let most = usize::try_from(most).map_err(|_| Errno::EINVAL)?;
    let mut count = 0;
    while count < most {
        let place = (first as usize).saturating_add(count);
        let info = ptrace::with_stopped(tid, |thread, _| {
            let shared = flags & PTRACE_PEEKSIGINFO_SHARED != 0;
            Ok(thread.queued(shared, place))
        })?;
        let Some(info) = info else { break };
        let copied = L::put_info(to.wrapping_add(count * size_of::<Info>()), &info);
        match copied {
            Err(error) if count == 0 => return Err(error),
            Err(_) => break,
            Ok(()) => count += 1,
        }
        if current().signal_due() {
            break;
        }
        crate::task::sched::cond_resched();
    }
    Ok(count)
}

/// Checks that the caller may see the filters of its tracee: EACCES unless it is privileged and has
/// no filters itself.
fn may_see_filters() -> Result<()> {
    if can(CAP_SYS_ADMIN) && current().seccomp.mode() == SECCOMP_MODE_DISABLED {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// PTRACE_SECCOMP_GET_FILTER: copies the instructions of a filter, of which number 0 is the oldest;
/// returns their number.
fn filter(tid: i32, number: usize, to: usize) -> Result<usize> {
    let thread = ptrace::with_stopped(tid, |thread, _| Ok(thread.clone()))?;
    may_see_filters()?;
    let filter = thread.seccomp.nth(number)?;
    let words: Vec<[u32; 2]> = filter.words()?;
    if to != 0 {
        UserSlice::new(to, size_of_val(&words[..])).copy_out(words.as_bytes())?;
    }
    Ok(words.len())
}

/// PTRACE_SECCOMP_GET_METADATA: `data` is a `struct seccomp_metadata` of `size` bytes, which
/// selects the filter.
fn filter_metadata(tid: i32, size: usize, data: usize) -> Result<usize> {
    let thread = ptrace::with_stopped(tid, |thread, _| Ok(thread.clone()))?;
    may_see_filters()?;
    let size = size.min(size_of::<[u64; 2]>());
    if size < size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let number = UserPtr::<u64>::new(data).read()?;
    let filter = thread.seccomp.nth(number as usize)?;
    let metadata = [number, filter.flags().into()];
    UserSlice::new(data, size).copy_out(&metadata.as_bytes()[..size])?;
    Ok(size)
}

fn kill(tid: i32) -> Result<()> {
    ptrace::with_stopped(tid, |thread, _| Ok(thread.clone()))?
        .process()
        .kill(SIGKILL);
    Ok(())
}

/// The memory of a stopped thread that the current process traces, unless its tracer may not see
/// the program's memory.
fn stopped_space(tid: i32) -> Result<Arc<AddressSpace>> {
    ptrace::with_stopped(tid, |thread, tracee| {
        let space = thread.space().ok_or(Errno::ESRCH)?;
        if space.dumpable() == 1 || tracee.credentials.can(CAP_SYS_PTRACE) {
            Ok(space)
        } else {
            Err(Errno::EIO)
        }
    })
}

/// PTRACE_GETREGSET and PTRACE_SETREGSET: `data` is a `struct iovec`.
fn registers<L: Layout>(request: u32, tid: i32, kind: usize, data: usize) -> Result<()> {
    let kind = u32::try_from(kind).map_err(|_| Errno::EINVAL)?;
    let [base, len] = L::words(data)?;
    let wants_compat = |thread: &Thread| L::WORD < size_of::<usize>() || thread.arch.is_compat();
    let (whole, slot) = ptrace::with_stopped(tid, |thread, _| {
        let compat = wants_compat(thread);
        if has_tags(kind, compat) {
            let mode = tagged_addresses(thread) as u64;
            return Ok((try_vec(&mode.to_ne_bytes())?, size_of::<u64>()));
        }
        if request == PTRACE_SETREGSET && regset::is_read_only(compat, kind) {
            return Err(Errno::EOPNOTSUPP);
        }
        let whole = regset::get(&thread.arch, compat, kind)?;
        Ok((whole, regset::slot(compat, kind)))
    })?;
    // Debuggers use this to find out the width of registers.
    if len % slot != 0 {
        return Err(Errno::EINVAL);
    }
    let len = len.min(regset::room(kind, whole.len()));
    if request == PTRACE_GETREGSET {
        let got = len.min(whole.len());
        UserSlice::new(base, got).copy_out(&whole[..got])?;
    } else {
        let bytes = UserPtr::<u8>::new(base).read_vec(len)?;
        ptrace::with_stopped(tid, |thread, _| {
            if has_tags(kind, wants_compat(thread)) {
                let (mode, _) = usize::read_from_prefix(&bytes).unwrap_or_default();
                return set_tagged_addresses(thread, mode);
            }
            regset::set(&thread.arch, wants_compat(thread), kind, 0, &bytes)?;
            thread.registers_changed();
            Ok(())
        })?;
    }
    L::put_words(data, &[base, len])
}

/// Requests that only arm64 has (arch/arm64/include/uapi/asm/ptrace.h).
const PTRACE_PEEKMTETAGS: u32 = 33;
const PTRACE_POKEMTETAGS: u32 = 34;

/// PTRACE_PEEKMTETAGS and PTRACE_POKEMTETAGS: copies tags of a stopped thread's memory, one per
/// byte; `data` is a `struct iovec`, whose length is then set to the number copied.
fn memory_tags<L: Layout>(tid: i32, address: usize, data: usize, write: bool) -> Result<()> {
    let (space, allowed) = ptrace::with_stopped(tid, |thread, tracee| {
        let space = thread.space();
        let all = tracee.credentials.can(CAP_SYS_PTRACE);
        let allowed = space
            .as_ref()
            .is_some_and(|space| space.dumpable() == 1 || all);
        Ok((space, allowed))
    })?;
    if !arch::has_tags() {
        return Err(Errno::EIO);
    }
    let [base, len] = L::words(data)?;
    let space = space.filter(|_| allowed).ok_or(Errno::EPERM)?;
    if !access_ok(base, len) {
        return Err(Errno::EFAULT);
    }
    let (mut done, mut reached) = (0, true);
    while done < len {
        let at = address & !(TAG_GRANULE - 1);
        let at = at.wrapping_add(done * TAG_GRANULE);
        let mut tags = [0; PAGE_SIZE / TAG_GRANULE];
        let most = (len - done).min((PAGE_SIZE - at % PAGE_SIZE) / TAG_GRANULE);
        let tags = &mut tags[..most];
        let buffer = UserSlice::new(base + done, most);
        let there = if write {
            // Tags that cannot be read from the buffer are not written.
            let got = buffer.copy_in_part(tags);
            let written = space.write_tags(at, &tags[..got]);
            written.map(|()| got)
        } else {
            let read = space.read_tags(at, tags);
            read.map(|()| buffer.copy_out_part(tags))
        };
        reached = there.is_ok();
        match there {
            Ok(count @ 1..) => done += count,
            _ => break,
        }
        crate::task::sched::cond_resched_killable()?;
    }
    if done == 0 {
        return Err(if reached { Errno::EFAULT } else { Errno::EIO });
    }
    L::put_words(data, &[base, done])
}

/// NT_ARM_TAGGED_ADDR_CTRL: the value of PR_GET_TAGGED_ADDR_CTRL.
const TAGGED_ADDRESSES: u32 = 0x409;

/// Whether the register set `kind` of a thread is NT_ARM_TAGGED_ADDR_CTRL.
fn has_tags(kind: u32, compat: bool) -> bool {
    kind == TAGGED_ADDRESSES && arch::ADDRESS_TAGS && !compat
}

/// `struct ptrace_rseq_configuration`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct RseqConfiguration {
    address: u64,
    len: u32,
    signature: u32,
    flags: u32,
    pad: u32,
}

/// PTRACE_GET_RSEQ_CONFIGURATION: copies as much as there is room for; returns its full size.
fn rseq_configuration(tid: i32, room: usize, to: usize) -> Result<usize> {
    let told = ptrace::with_stopped(tid, |thread, _| {
        let [address, len, signature] = thread.rseq.registration();
        Ok(RseqConfiguration {
            address: address as u64,
            len: len as u32,
            signature: signature as u32,
            flags: 0,
            pad: 0,
        })
    })?;
    let bytes = told.as_bytes();
    let count = room.min(bytes.len());
    UserSlice::new(to, count).copy_out(&bytes[..count])?;
    Ok(bytes.len())
}

/// `struct ptrace_syscall_info` (include/uapi/linux/ptrace.h).
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct CallInfo {
    kind: u32,
    arch: u32,
    pc: u64,
    sp: u64,
    data: [u64; 8],
}

/// The size of the structure for each kind.
const NOTHING: usize = 24;
const ENTRY: usize = NOTHING + 56;
const EXIT: usize = NOTHING + 9;
const FILTER: usize = ENTRY + 4;

/// PTRACE_GET_SYSCALL_INFO
fn call_info(tid: i32, size: usize, to: usize) -> Result<usize> {
    let (info, len) = ptrace::with_stopped(tid, |thread, tracee| {
        let stop = tracee.stop.map_or(Call::None, |stop| stop.call);
        Ok(thread.arch.with_stopped_frame(|frame| {
            let made = frame.call();
            let mut info = CallInfo {
                arch: made.architecture,
                pc: made.pc as u64,
                sp: frame.sp() as u64,
                ..CallInfo::default()
            };
            let entry = || {
                let mut data = [0; 8];
                data[0] = made.number as u64;
                data[1..7].copy_from_slice(&made.arguments.map(|argument| argument as u64));
                data
            };
            let (kind, len) = match stop {
                Call::None => (PTRACE_SYSCALL_INFO_NONE, NOTHING),
                Call::Enters => {
                    info.data = entry();
                    (PTRACE_SYSCALL_INFO_ENTRY, ENTRY)
                }
                Call::Leaves => {
                    let result = frame.result();
                    info.data[0] = result as u64;
                    info.data[1] = (-4095..0).contains(&result) as u64;
                    (PTRACE_SYSCALL_INFO_EXIT, EXIT)
                }
                Call::Filtered(data) => {
                    info.data = entry();
                    info.data[7] = data as u64;
                    (PTRACE_SYSCALL_INFO_SECCOMP, FILTER)
                }
            };
            info.kind = kind;
            (info, len)
        }))
    })?;
    UserSlice::new(to, len.min(size)).copy_out(&info.as_bytes()[..len.min(size)])?;
    Ok(len)
}

/// The maximum number of `struct iovec`s in a call (UIO_MAXIOV).
const MOST_VECTORS: usize = 1024;
/// The number of bytes copied at a time.
const CHUNK: usize = 4096;

/// Ranges of memory, which are visited in order.
struct Ranges {
    left: Vec<IoVec>,
    at: usize,
}

impl Ranges {
    fn own<L: Layout>(address: usize, count: usize) -> Result<Self> {
        let left = super::file::pieces::<L>(address, count)?;
        Ok(Ranges { left, at: 0 })
    }

    /// Ranges of another process, whose addresses are checked on access.
    fn of_remote<L: Layout>(address: usize, count: usize) -> Result<Self> {
        if count > MOST_VECTORS {
            return Err(Errno::EINVAL);
        }
        let left = L::pieces(address, count)?;
        if left.iter().any(|piece| piece.len > isize::MAX as usize) {
            return Err(Errno::EINVAL);
        }
        Ok(Ranges { left, at: 0 })
    }

    /// The next range, of at most a chunk.
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.left.get(self.at).is_some_and(|piece| piece.len == 0) {
            self.at += 1;
        }
        let piece = self.left.get(self.at)?;
        Some((piece.base, piece.len.min(CHUNK)))
    }

    fn advance(&mut self, count: usize) {
        if let Some(piece) = self.left.get_mut(self.at) {
            piece.base = piece.base.wrapping_add(count);
            piece.len -= count;
        }
    }
}

fn transfer<L: Layout>(
    pid: i32,
    local: (usize, usize),
    remote: (usize, usize),
    flags: usize,
    mut copy: impl FnMut(&AddressSpace, usize, usize, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    check_flags(flags as u32, 0)?;
    let mut local = Ranges::own::<L>(local.0, local.1)?;
    if local.next().is_none() {
        return Ok(0);
    }
    let mut remote = Ranges::of_remote::<L>(remote.0, remote.1)?;
    if remote.next().is_none() {
        return Ok(0);
    }
    let thread = pid_table::thread(pid).ok_or(Errno::ESRCH)?;
    let space =
        ptrace_access::look(&thread, By::Real, |thread| Ok(thread.space()))?.ok_or(Errno::ESRCH)?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(CHUNK).map_err(|_| Errno::ENOMEM)?;
    buffer.resize(CHUNK, 0);
    let mut total = 0;
    while let (Some((own, own_len)), Some((other, other_len))) = (local.next(), remote.next()) {
        let wanted = own_len.min(other_len).min(MAX_COUNT - total);
        if wanted == 0 {
            break;
        }
        let done = match copy(&space, own, other, &mut buffer[..wanted]) {
            Err(_) if total > 0 => return Ok(total),
            done => done?,
        };
        total += done;
        if done < wanted {
            return if total > 0 {
                Ok(total)
            } else {
                Err(Errno::EFAULT)
            };
        }
        local.advance(done);
        remote.advance(done);
        if crate::task::sched::cond_resched_killable().is_err() {
            break;
        }
    }
    Ok(total)
}

/// process_vm_readv(2)
pub fn process_vm_readv<L: Layout>(
    pid: i32,
    local: usize,
    locals: usize,
    remote: usize,
    remotes: usize,
    flags: usize,
) -> Result<usize> {
    transfer::<L>(
        pid,
        (local, locals),
        (remote, remotes),
        flags,
        |space, own, other, buffer| {
            let got = space.read(other, buffer)?;
            Ok(UserSlice::new(own, got).copy_out_part(&buffer[..got]))
        },
    )
}

/// process_vm_writev(2)
pub fn process_vm_writev<L: Layout>(
    pid: i32,
    local: usize,
    locals: usize,
    remote: usize,
    remotes: usize,
    flags: usize,
) -> Result<usize> {
    transfer::<L>(
        pid,
        (local, locals),
        (remote, remotes),
        flags,
        |space, own, other, buffer| {
            let got = UserSlice::new(own, buffer.len()).copy_in_part(buffer);
            space.write(other, &buffer[..got])
        },
    )
}
