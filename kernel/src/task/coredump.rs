//! Core files: the state of a program when a signal ended it, in Linux's layout for debuggers: the
//! registers of its threads, beginning with the one that got the signal, and the memory that the
//! program may have changed.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;
use core::sync::atomic::AtomicU32;

use elf::abi::{
    EI_NIDENT, ET_CORE, EV_CURRENT, NT_AUXV, NT_PRFPREG, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO,
    PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE,
};
use linux_raw_sys::general::{O_LARGEFILE, O_RDWR, RLIMIT_CORE, S_IFREG};
use zerocopy::{Immutable, IntoBytes};

use super::signal::Info;
use super::{core_name, current, exit, rlimit, sched};
use crate::arch::{self, ABIS, regset};
use crate::errno::{Errno, Result};
use crate::fs::inode::{Kind, New};
use crate::fs::io::Source as Bytes;
use crate::fs::walk::{Scope, Walk};
use crate::fs::{self, File, OpenFlags, perm};
use crate::mm::frame::TAG_GRANULE;
use crate::mm::vma::{Flags, Rights, Source, Vma};
use crate::mm::{AddressSpace, PAGE_SIZE, page_up};
use crate::sync::Mutex;
use crate::syscall::prctl::tagged_addresses;

/// The core file of a program with changed credentials (`suid_dumpable`): none, one as of any
/// program, or one that belongs to root.
pub static SUID_DUMPABLE: AtomicU32 = AtomicU32::new(0);
/// The last of these (SUID_DUMP_ROOT).
const OF_ROOT: u32 = 2;
/// The most program headers that a file header can count.
const MOST_SEGMENTS: usize = 0xffff;
/// The kinds of memory that go into the file, as bits of `coredump_filter`: all kinds, private
/// memory, shared files; and the default.
pub const KINDS: u32 = 0x1ff;
const OWN: u32 = 1;
const SHARED: u32 = 8;
pub const FILTER: u32 = 0x33;
/// The number of pages that are looked up at a time.
const CHUNK: usize = 64;

/// The file header (Elf64_Ehdr).
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct FileHeader {
    ident: [u8; EI_NIDENT],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    segments: u64,
    sections: u64,
    flags: u32,
    sizes: [u16; 2],
    count: u16,
    section: [u16; 3],
}

/// A section header (Elf64_Shdr), which is present if the file header cannot count the segments.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Section {
    name: [u32; 2],
    place: [u64; 3],
    sections: u64,
    names: u32,
    segments: u32,
    rest: [u64; 2],
}

/// PT_AARCH64_MEMTAG_MTE: a segment with the tags of memory, two per byte.
const PT_TAGS: u32 = 0x7000_0002;
/// Bytes of the tags of a page.
const TAGS: usize = PAGE_SIZE / TAG_GRANULE / 2;
/// NT_ARM_TAGGED_ADDR_CTRL: the value of PR_GET_TAGGED_ADDR_CTRL.
const NT_TAGGED_ADDRESSES: u64 = 0x409;

/// A program header (Elf64_Phdr).
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    len: u64,
    memory: u64,
    align: u64,
}

/// `struct elf_prstatus` up to the registers.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Status {
    signal: [i32; 3],
    current: u16,
    pad: u16,
    pending: u64,
    held: u64,
    ids: [i32; 4],
    times: [[u64; 2]; 4],
}

/// `struct elf_prpsinfo`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Program {
    state: [u8; 4],
    pad: u32,
    flags: u64,
    owner: [u32; 2],
    ids: [i32; 4],
    name: [u8; 16],
    arguments: [u8; 80],
}

/// Writes the core file of the current process, which `info` ends, if its limits allow one; returns
/// whether it was written.
pub fn dump(info: &Info) -> bool {
    let (thread, limit) = (current(), rlimit(RLIMIT_CORE));
    if limit < PAGE_SIZE
        || super::with_space(|space| space.dumpable() == 0)
        || thread.arch.is_compat()
    {
        return false;
    }
    let pid = thread.process().pid();
    let gathered = Gathered {
        pid,
        signal: (info.number(), info.code),
        notes: Vec::new(),
    };
    {
        let mut all = GATHERED.lock();
        if all.iter().any(|gathered| gathered.pid == pid) {
            drop(all);
            wait_for_dump();
        }
        if all.try_reserve(1).is_err() {
            return false;
        }
        all.push(gathered);
    }
    let alone = exit::end_other_threads();
    let mut all = GATHERED.lock();
    let others = all.iter().position(|gathered| gathered.pid == pid);
    let others = others.map(|at| all.swap_remove(at).notes);
    drop(all);
    alone
        .and_then(|()| write(info, others.unwrap_or_default(), limit as u64))
        .is_ok()
}

/// The data that the other threads of a process leave for its core file when they end.
struct Gathered {
    pid: i32,
    /// The number and code of the signal that ends the process.
    signal: (u32, i32),
    notes: Vec<u8>,
}

/// The processes that are ending their other threads for a core file.
static GATHERED: Mutex<Vec<Gathered>> = Mutex::new(Vec::new());

/// Another thread writes the file, and will end this one.
fn wait_for_dump() -> ! {
    while !current().must_die() {
        sched::cond_resched();
    }
    leave();
    exit::exit_thread()
}

/// Saves the current thread's registers for a core file, if its process writes one.
pub fn leave() {
    let thread = current();
    let pid = thread.process().pid();
    let mut all = GATHERED.lock();
    if let Some(gathered) = all.iter_mut().find(|gathered| gathered.pid == pid) {
        // A thread that finds no memory is missing in the file.
        _ = registers(&mut gathered.notes, gathered.signal);
    }
}

/// Creates a new file, after removing an old one of this name if the program is allowed to.
fn create(signal: u32) -> Result<Arc<File>> {
    let (thread, name) = (current(), core_name::make(signal)?);
    let of_root = super::with_space(|space| space.dumpable() == OF_ROOT);
    let context = thread.fs();
    let mut walk = Walk::new(&context);
    if of_root {
        // The program's user must not choose the folder: the path must be absolute, from the
        // machine's own root.
        if name.first() != Some(&b'/') {
            return Err(Errno::EPERM);
        }
        walk = walk.within(Scope::IN_ROOT, Some(&fs::root()));
        thread.act_as_root()?;
    }
    let (here, last) = walk.parent(None, &name)?;
    let name = last.last_component(Errno::EISDIR)?;
    perm::check(&here, perm::WRITE | perm::EXECUTE)?;
    match walk.last(&here, &last) {
        Err(Errno::ENOENT) => {}
        found if of_root => return found.and(Err(Errno::EEXIST)),
        found => {
            let old = found?;
            if old.kind() == Kind::Directory {
                return Err(Errno::EISDIR);
            }
            perm::sticky(&here, &old)?;
            here.inode().remove(&here, &old)?;
        }
    }
    let mode = S_IFREG | 0o600 & !context.umask();
    let entry = here.inode().create(&here, name, New::Node(mode, 0))?;
    File::open(entry, OpenFlags(O_RDWR | O_LARGEFILE))
}

/// The number of bytes of a VMA that go into the file: by default no file contents.
fn kept(vma: &Vma, filter: u32) -> usize {
    let wanted = match &vma.source {
        Source::Anonymous => filter & OWN != 0,
        Source::File { .. } if vma.is_shared() => filter & SHARED != 0,
        Source::File { .. } => filter & OWN != 0 && vma.rights.contains(Rights::WRITE),
    };
    let dumped = vma.rights.contains(Rights::READ) && !vma.flags.contains(Flags::DONT_DUMP);
    if wanted && dumped {
        vma.range().len()
    } else {
        0
    }
}

fn write(info: &Info, others: Vec<u8>, limit: u64) -> Result<()> {
    let space = current().space().ok_or(Errno::ENOMEM)?;
    let filter = current().process().dump_filter();
    let mut vmas = Vec::new();
    for vma in space.vmas() {
        vmas.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        vmas.push(vma);
    }
    let mut notes = notes(&space, info)?;
    let room = notes.try_reserve_exact(others.len());
    room.map_err(|_| Errno::ENOMEM)?;
    notes.extend_from_slice(&others);
    let tagged = || {
        vmas.iter()
            .filter(|vma| vma.rights.contains(Rights::TAGGED))
    };
    let count = vmas.len() + 1 + tagged().count();
    let head = size_of::<FileHeader>() + count * size_of::<Segment>();
    let mut header = Vec::new();
    let wanted = header.try_reserve_exact(head + notes.len());
    wanted.map_err(|_| Errno::ENOMEM)?;
    let first = page_up(head + notes.len());
    let kept_bytes: usize = vmas.iter().map(|vma| kept(vma, filter)).sum();
    let tag_bytes: usize = tagged().map(kept_tags).sum();
    let end = first + kept_bytes + tag_bytes;
    header.extend_from_slice(file_header(count, end).as_bytes());
    header.extend_from_slice(segment(PT_NOTE, 0, head, 0, notes.len(), 0, 4).as_bytes());
    let mut offset = first;
    for vma in &vmas {
        let len = kept(vma, filter);
        let flags = flags_of(vma.rights);
        let (start, memory) = (vma.start, vma.range().len());
        let load = segment(PT_LOAD, flags, offset, start, len, memory, PAGE_SIZE);
        header.extend_from_slice(load.as_bytes());
        offset += len;
    }
    for vma in tagged() {
        let len = kept_tags(vma);
        let tags = segment(PT_TAGS, 0, offset, vma.start, len, vma.range().len(), 0);
        header.extend_from_slice(tags.as_bytes());
        offset += len;
    }
    header.extend_from_slice(&notes);
    let file = create(info.number())?;
    put(&file, &header, 0)?;
    let mut at = page_up(header.len()) as u64;
    for vma in &vmas {
        let len = kept(vma, filter);
        if len > 0 {
            contents(&space, vma, &file, at, limit)?;
        }
        at += len as u64;
    }
    for vma in tagged() {
        if kept_tags(vma) > 0 {
            tags(&space, vma, &file, at, limit)?;
        }
        at += kept_tags(vma) as u64;
    }
    if count >= MOST_SEGMENTS {
        let section = Section {
            name: [0; 2],
            place: [0; 3],
            sections: 1,
            names: 0,
            segments: count as u32,
            rest: [0; 2],
        };
        let section = section.as_bytes();
        if at + section.len() as u64 <= limit {
            put(&file, section, at)?;
        }
        at += section.len() as u64;
    }
    file.dentry().inode().truncate(at.min(limit))
}

/// The number of bytes of a VMA's tags that go into the file.
fn kept_tags(vma: &Vma) -> usize {
    match vma.flags.contains(Flags::DONT_DUMP) {
        true => 0,
        false => vma.range().len() / PAGE_SIZE * TAGS,
    }
}

/// Writes the tags of a VMA's present pages, as `contents` writes the pages.
fn tags(space: &AddressSpace, vma: &Vma, file: &File, at: u64, limit: u64) -> Result<()> {
    let (mut from, mut tags) = (vma.start, [0; 2 * TAGS]);
    while from < vma.end {
        let (page, next) = space.next_tags(from..vma.end, &mut tags);
        if let Some(page) = page {
            let packed: [u8; TAGS] =
                core::array::from_fn(|at| tags[2 * at] | tags[2 * at + 1] << 4);
            let place = at + ((page - vma.start) / PAGE_SIZE * TAGS) as u64;
            if place + TAGS as u64 > limit {
                return Ok(());
            }
            put(file, &packed, place)?;
        }
        from = next;
        if current().must_die() {
            return Err(Errno::EINTR);
        }
        sched::cond_resched();
    }
    Ok(())
}

/// Writes the present pages of a VMA into the file from `at` on, and leaves holes for the others.
/// Nothing is written beyond `limit`.
fn contents(space: &AddressSpace, vma: &Vma, file: &File, at: u64, limit: u64) -> Result<()> {
    let mut page = Vec::new();
    page.try_reserve_exact(PAGE_SIZE)
        .map_err(|_| Errno::ENOMEM)?;
    page.resize(PAGE_SIZE, 0);
    for first in vma.range().step_by(CHUNK * PAGE_SIZE) {
        let part = first..vma.end.min(first + CHUNK * PAGE_SIZE);
        let mut there = [0; CHUNK];
        space.present(vma, part.clone(), &mut there);
        for (address, _) in part
            .step_by(PAGE_SIZE)
            .zip(there)
            .filter(|(_, there)| *there != 0)
        {
            let place = at + (address - vma.start) as u64;
            if place + PAGE_SIZE as u64 > limit {
                return Ok(());
            }
            let got = space.read(address, &mut page)?;
            put(file, &page[..got], place)?;
        }
        if current().must_die() {
            return Err(Errno::EINTR);
        }
        sched::cond_resched();
    }
    Ok(())
}

fn put(file: &File, bytes: &[u8], at: u64) -> Result<()> {
    match file.write_at(&mut Bytes::kernel(bytes), at)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    }
}

/// The header of a file with `count` segments, which ends at `end` except for a section header.
fn file_header(count: usize, end: usize) -> FileHeader {
    let many = count >= MOST_SEGMENTS;
    let mut ident = [0; EI_NIDENT];
    ident[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    FileHeader {
        ident,
        kind: ET_CORE,
        machine: ABIS[0].machine,
        version: EV_CURRENT.into(),
        entry: 0,
        segments: size_of::<FileHeader>() as u64,
        sections: if many { end as u64 } else { 0 },
        flags: 0,
        sizes: [size_of::<FileHeader>() as u16, size_of::<Segment>() as u16],
        count: count.min(MOST_SEGMENTS) as u16,
        section: if many {
            [size_of::<Section>() as u16, 1, 0]
        } else {
            [0; 3]
        },
    }
}

fn segment(
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    len: usize,
    memory: usize,
    align: usize,
) -> Segment {
    let [offset, address, len, memory, align] =
        [offset, address, len, memory, align].map(|value| value as u64);
    Segment {
        kind,
        flags,
        offset,
        address,
        physical: 0,
        len,
        memory,
        align,
    }
}

fn flags_of(rights: Rights) -> u32 {
    [
        (Rights::READ, PF_R),
        (Rights::WRITE, PF_W),
        (Rights::EXECUTE, PF_X),
    ]
    .into_iter()
    .filter(|(right, _)| rights.asked().contains(*right))
    .fold(0, |flags, (_, flag)| flags | flag)
}

/// Adds the notes of the current thread, which `signal` ends: its state, and its
/// floating-point registers.
fn registers(to: &mut Vec<u8>, signal: (u32, i32)) -> Result<()> {
    let thread = current();
    let process = thread.process();
    let status = Status {
        signal: [signal.0 as i32, signal.1, 0],
        current: signal.0 as u16,
        pad: 0,
        pending: thread.pending(),
        held: thread.blocked(),
        ids: [
            thread.tid(),
            process.parent(),
            process.group(),
            process.session(),
        ],
        times: [[0; 2]; 4],
    };
    let has_floats = [1u32, 0];
    thread.arch.with_frame(|frame| {
        let general = regset::general(frame);
        let parts = [status.as_bytes(), general, has_floats.as_bytes()];
        note(to, NT_PRSTATUS, &parts)
    })?;
    note(to, NT_PRFPREG, &[&regset::own_floating()])?;
    for (kind, set) in regset::own_others()? {
        note_of(b"LINUX\0\0\0", to, kind.into(), &[&set])?;
    }
    if arch::ADDRESS_TAGS {
        let mode = tagged_addresses(&thread) as u64;
        note_of(b"LINUX\0\0\0", to, NT_TAGGED_ADDRESSES, &[mode.as_bytes()])?;
    }
    Ok(())
}

/// The notes: the state of the thread, the process, the signal, and the auxiliary vector.
fn notes(space: &AddressSpace, info: &Info) -> Result<Vec<u8>> {
    let (thread, mut notes) = (current(), Vec::new());
    let process = thread.process();
    let ids = [
        process.pid(),
        process.parent(),
        process.group(),
        process.session(),
    ];
    registers(&mut notes, (info.number(), info.code))?;
    let program_ranges = space.program();
    let mut arguments = [0; 80];
    let len = program_ranges.arguments.len().min(arguments.len() - 1);
    let len = space.read(program_ranges.arguments.start, &mut arguments[..len])?;
    arguments[..len.saturating_sub(1)]
        .iter_mut()
        .filter(|byte| **byte == 0)
        .for_each(|byte| *byte = b' ');
    let program = Program {
        state: [0, b'R', 0, 0],
        pad: 0,
        flags: 0,
        owner: process.with_credentials(|who| [who.uid, who.gid]),
        ids,
        name: thread.name(),
        arguments,
    };
    note(&mut notes, NT_PRPSINFO, &[program.as_bytes()])?;
    note(&mut notes, NT_SIGINFO, &[info.as_bytes()])?;
    let mut auxiliary = Vec::new();
    let wanted = auxiliary.try_reserve_exact(program_ranges.auxiliary.len());
    wanted.map_err(|_| Errno::ENOMEM)?;
    auxiliary.resize(program_ranges.auxiliary.len(), 0);
    space.read(program_ranges.auxiliary.start, &mut auxiliary)?;
    note(&mut notes, NT_AUXV, &[&auxiliary])?;
    Ok(notes)
}

/// Adds a note whose content is `parts`, one after the other.
fn note(to: &mut Vec<u8>, kind: u64, parts: &[&[u8]]) -> Result<()> {
    note_of(b"CORE\0\0\0\0", to, kind, parts)
}

/// Adds a note of `owner`, a zero-terminated name.
fn note_of(owner: &[u8; 8], to: &mut Vec<u8>, kind: u64, parts: &[&[u8]]) -> Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let room = to.try_reserve(12 + owner.len() + len.next_multiple_of(4));
    room.map_err(|_| Errno::ENOMEM)?;
    let name = owner.iter().take_while(|byte| **byte != 0).count() + 1;
    to.extend_from_slice([name as u32, len as u32, kind as u32].as_bytes());
    to.extend_from_slice(owner);
    parts.iter().for_each(|part| to.extend_from_slice(part));
    to.resize(to.len().next_multiple_of(4), 0);
    Ok(())
}
