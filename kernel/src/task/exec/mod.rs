//! execve: replacing a program. The old one stays intact until nothing can fail any more.

extern crate alloc;

mod exec_lock;
mod identity;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::auxvec::*;
use linux_raw_sys::general::{RLIMIT_AS, RLIMIT_STACK, SIGSEGV};

pub use exec_lock::ExecLock;
use identity::Identity;

use super::coredump::SUID_DUMPABLE;
use super::elf::{Mapped, Program, header_size};
use super::initial_stack::{self, Extra, Layout, Strings};
use super::limits::INFINITY;
use super::personality::{self, ADDR_COMPAT_LAYOUT, ADDR_NO_RANDOMIZE, MMAP_PAGE_ZERO};
use super::rusage::USER_HZ;
use super::{Thread, current, exit, futex, oom, pid_table, ptrace, rseq, signal, speculation};
use crate::arch::{self, Abi, Frame};
use crate::errno::{Errno, Result};
use crate::fs::{self, File};
use crate::mm::heap::try_vec;
use crate::mm::vma::Rights;
use crate::mm::{MapRequest, PAGE_SIZE, Place, ProgramRanges, Removed, SpaceUser, aslr};
use crate::random;

/// The bytes of a script's first line that are used (Linux's BINPRM_BUF_SIZE).
const LINE: usize = 256;
/// The stack limit of a program that is more privileged than its caller (Linux's _STK_LIM).
const SECURE_STACK: usize = 8 << 20;
/// The maximum depth of scripts that are interpreters of scripts.
const DEPTH: usize = 5;

/// The arguments of exec.
pub struct Request {
    /// The file.
    pub file: Arc<File>,
    /// The path of the file.
    pub path: Vec<u8>,
    /// Arguments.
    pub arguments: Strings,
    /// Environment.
    pub environment: Strings,
}

/// A program that is ready to run.
struct Ready {
    identity: Identity,
    space: SpaceUser,
    file: Arc<File>,
    layout: Layout,
    parts: [Range<usize>; 2],
    first: Frame,
}

/// Replaces the current thread's program; returns its first registers.
///
/// # Errors
/// ENOEXEC, ENOENT, EACCES, E2BIG, ENOMEM, ELOOP …: the old program continues.
pub fn exec(mut request: Request) -> Result<Frame> {
    let name = try_vec(base_name(&request.path))?;
    let thread = current();
    let _guard = thread.process().guard_credentials()?;
    resolve_scripts(&mut request)?;
    let ready = prepare(&request)?;
    exit::end_other_threads()?;
    // The old program cannot continue any more.
    commit(ready, &name).inspect_err(|_| signal::force_sigsegv(SIGSEGV))
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// While the file is a script, replaces it by its interpreter, and adds the script to the
/// arguments.
fn resolve_scripts(request: &mut Request) -> Result<()> {
    for _ in 0..DEPTH {
        let mut line = [0; LINE];
        let count = request.file.read_kernel(0, &mut line)?;
        let Some(rest) = line[..count].strip_prefix(b"#!") else {
            return Ok(());
        };
        let (interpreter, argument) = parse_line(rest, count == LINE)?;
        let mut arguments = Strings::new();
        arguments.push(interpreter)?;
        if let Some(argument) = argument {
            arguments.push(argument)?;
        }
        arguments.push(&request.path)?;
        arguments.append(&request.arguments, 1)?;
        request.arguments = arguments;
        request.file = fs::open_program(&current().fs(), None, interpreter, true)?;
        request.path = try_vec(interpreter)?;
    }
    Err(Errno::ELOOP)
}

/// The interpreter and its argument in the text after `#!`. `cut`: the line may continue beyond the
/// bytes read.
fn parse_line(bytes: &[u8], cut: bool) -> Result<(&[u8], Option<&[u8]>)> {
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = bytes.iter().position(|&byte| byte == b'\n' || byte == 0);
    let line = bytes[..end.unwrap_or(bytes.len())].trim_ascii();
    let split = line.iter().position(is_blank);
    let interpreter = &line[..split.unwrap_or(line.len())];
    // A path must be complete; an argument may be cut off.
    if interpreter.is_empty() || end.is_none() && cut && split.is_none() {
        return Err(Errno::ENOEXEC);
    }
    Ok((
        interpreter,
        split
            .map(|at| line[at..].trim_ascii())
            .filter(|argument| !argument.is_empty()),
    ))
}

fn prepare(request: &Request) -> Result<Ready> {
    let mut identity = Identity::decide(&request.file)?;
    identity.lost_personality |= arch::LOST_PERSONALITY;
    let personality = current().personality() & !identity.lost_personality;
    let random = personality & ADDR_NO_RANDOMIZE == 0;
    let program = Program::read(request.file.clone())?;
    let interpreter = match program.interpreter()? {
        Some(path) => Some(Program::read(fs::open_interpreter(
            &current().fs(),
            &path,
        )?)?),
        None => None,
    };
    let abi = program.abi();
    if let Some(interpreter) = &interpreter
        && !core::ptr::eq(interpreter.abi(), abi)
    {
        return Err(Errno::ELIBBAD);
    }
    if let Some(interpreter) = &interpreter {
        identity.hide_unreadable(interpreter.file());
    }
    let space = SpaceUser::new((abi.end)())?;
    if !random {
        space.fix_places();
    }
    space.set_dumpable(match identity.dumpable {
        true => 1,
        false => SUID_DUMPABLE.load(Relaxed),
    });
    let most = if identity.secure {
        SECURE_STACK
    } else {
        1 << 30
    };
    let wanted = super::rlimit(RLIMIT_STACK);
    let limit = wanted.min(most).max(128 << 10);
    let top = space.map_stack(limit, program.executable_stack())?;
    if personality & ADDR_COMPAT_LAYOUT != 0 || wanted == INFINITY && !identity.secure {
        space.map_upwards();
    }
    // The interpreter itself guards the program's pages.
    let guarded = interpreter.as_ref().unwrap_or(&program).wants_guard()?;
    let near = aslr::program_start((abi.end)(), random);
    let mapped = program.map(&space, Some(near), guarded && interpreter.is_none())?;
    space.set_heap_start(mapped.end);
    let loader = interpreter
        .map(|interpreter| interpreter.map(&space, None, guarded))
        .transpose()?;
    let vdso = (abi.map)(&space)?;
    space.set_vdso(vdso);
    let extra = Extra {
        path: &request.path,
        platform: abi.platform,
        random: random::bytes(),
        is_64bit: abi.is_64bit,
    };
    let layout = initial_stack::build(
        &space,
        top,
        &request.arguments,
        &request.environment,
        &extra,
        |path, platform, random| {
            vector(
                abi,
                &mapped,
                loader.as_ref(),
                vdso,
                &identity,
                [path, platform, random],
            )
        },
    )?;
    let entry = loader.map_or(mapped.entry, |loader| loader.entry);
    let first = (abi.start)(entry, layout.sp);
    Ok(Ready {
        identity,
        space,
        file: program.file().clone(),
        layout,
        parts: program
            .parts()
            .map(|part| mapped.base.wrapping_add(part.start)..mapped.base.wrapping_add(part.end)),
        first,
    })
}

/// The auxiliary vector, in Linux's order.
fn vector(
    abi: &Abi,
    program: &Mapped,
    loader: Option<&Mapped>,
    vdso: usize,
    identity: &Identity,
    [path, platform, random]: [usize; 3],
) -> Result<Vec<[usize; 2]>> {
    let (hwcap, hwcap2) = (abi.hwcap)();
    let who = &identity.credentials;
    let ids = [who.uid, who.euid, who.gid, who.egid].map(|id| id as usize);
    let mut vector = Vec::new();
    vector.try_reserve(24).map_err(|_| Errno::ENOMEM)?;
    let mut add = |kind: u32, value: usize| vector.push([kind as usize, value]);
    if abi.is_64bit && vdso != 0 {
        add(AT_SYSINFO_EHDR, vdso);
    }
    add(AT_HWCAP, hwcap as usize);
    add(AT_PAGESZ, PAGE_SIZE);
    add(AT_CLKTCK, USER_HZ as usize);
    add(AT_PHDR, program.headers);
    add(AT_PHENT, header_size(abi));
    add(AT_PHNUM, program.header_count);
    add(AT_BASE, loader.map_or(0, |loader| loader.base));
    add(AT_FLAGS, 0);
    add(AT_ENTRY, program.entry);
    add(AT_UID, ids[0]);
    add(AT_EUID, ids[1]);
    add(AT_GID, ids[2]);
    add(AT_EGID, ids[3]);
    add(AT_SECURE, identity.secure as usize);
    add(AT_RANDOM, random);
    add(AT_HWCAP2, hwcap2 as usize);
    add(AT_EXECFN, path);
    add(AT_PLATFORM, platform);
    add(AT_RSEQ_FEATURE_SIZE, rseq::SIZE);
    add(AT_RSEQ_ALIGN, rseq::ALIGN);
    if abi.is_64bit {
        add(AT_MINSIGSTKSZ, arch::signal::frame_size());
    }
    Ok(vector)
}

/// The point of no return: from here on only errors that end the process occur.
fn commit(ready: Ready, name: &[u8]) -> Result<Frame> {
    let thread: &Thread = &current();
    let process = thread.process();
    // Signal handlers belong to the old program.
    let actions = oom::insist(|| process.signals.actions().exec())?;
    oom::insist(|| thread.unshare_files())?;
    exit::leave_memory(thread);
    futex::release_locks();
    // Closed while others can only inspect the old program, and before they have to wait: a socket
    // may linger.
    thread.files().exec();
    let update = process.update_program()?;
    if thread.tid() != process.pid() {
        pid_table::take_over(thread, process.pid());
        ptrace::leader_replaced();
    }
    process.change_program();
    process.set_modes(u32::MAX, process.inherited_modes());
    let Layout {
        sp,
        arguments,
        environment,
        auxiliary,
    } = ready.layout;
    let [code, data] = ready.parts;
    ready.space.set_program(ProgramRanges {
        arguments,
        environment,
        auxiliary,
        stack: sp,
        code,
        data,
    });
    let old = change_identity(ready.identity, ready.space);
    if personality::has(MMAP_PAGE_ZERO) {
        map_page_zero();
    }
    process.signals.set_actions(actions);
    process.timers.exec();
    for pending in [&thread.signals.pending, &process.signals.pending] {
        pending.lock().discard_timers();
    }
    thread.set_name(name);
    for ring in [&thread.keyring, &process.keyring] {
        let gone = ring.lock().take();
        drop(gone);
    }
    let own = &thread.signals.own;
    own.with(|own| own.altstack = own.altstack.emptied());
    process.set_program(ready.file);
    drop(update);
    if let Some(old) = old {
        process.leave_memory(old.size().peak);
        drop(old);
    }
    process.return_memory();
    thread.arch.reset_user();
    signal::set_blocked(thread.blocked());
    let mut first = ready.first;
    speculation::exec(&mut first);
    Ok(first)
}

/// Maps a page of zeroes at address 0, if the program may have one.
#[cold]
fn map_page_zero() {
    let request = MapRequest {
        rights: Rights::READ.union(Rights::EXECUTE),
        limit: super::rlimit(RLIMIT_AS),
        ..MapRequest::anonymous(Place::Fixed(0), PAGE_SIZE)
    };
    // As on Linux, a program that may not have the page starts without it.
    let space = current().space();
    _ = space.map(|space| space.map(request, &mut Removed::new()));
}

/// Gives the current thread the credentials of `identity`, and then the memory `space`; returns the
/// old memory. The new memory is never visible with the old credentials.
fn change_identity(identity: Identity, space: SpaceUser) -> Option<SpaceUser> {
    let thread = current();
    let process = thread.process();
    if identity.secure || thread.with_credentials(|old| identity.credentials.is_guarded_from(old)) {
        thread.set_death_signal(0);
    }
    if identity.secure {
        process.limits.lower(RLIMIT_STACK, SECURE_STACK);
    }
    thread.set_tags_addresses(false);
    thread.set_personality(thread.personality() & !identity.lost_personality);
    thread.set_credentials(identity.credentials);
    thread.replace_space(Some(space))
}
