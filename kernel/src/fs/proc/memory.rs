//! procfs files about a process's memory.

use super::super::columns::Columns;
use super::super::file::{File, FileOps};
use super::super::io::Sink;
use super::super::seq_file::{Content, Text};
use super::super::seq_records::Records;
use super::subject::Subject;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::vma::{Flags, Rights, Source, Vma};
use crate::mm::{AddressSpace, PAGE_SIZE, ProgramRanges, Usage, page_up};
use crate::put;
use crate::task::sched::cond_resched_killable;
use crate::task::{Process, Thread, pid_table};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;

/// The number of bytes that are copied at a time.
const CHUNK: usize = 256;

/// An open file that shows a range of a process's memory as it is at each read: a program decides
/// how long it is.
struct Excerpt<S> {
    space: S,
    range: fn(&ProgramRanges) -> Range<usize>,
}

/// Opens a range of the memory that `space` finds at each read; nothing is read if there is none.
///
/// # Errors
/// ENOMEM.
pub fn excerpt<S>(space: S, range: fn(&ProgramRanges) -> Range<usize>) -> Result<Arc<dyn FileOps>>
where
    S: Fn() -> Result<Option<Arc<AddressSpace>>> + Send + Sync + 'static,
{
    Ok(try_arc(Excerpt { space, range })?)
}

impl<S> FileOps for Excerpt<S>
where
    S: Fn() -> Result<Option<Arc<AddressSpace>>> + Send + Sync + 'static,
{
    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let Some(space) = (self.space)()? else {
            return Ok(0);
        };
        let range = (self.range)(&space.program());
        let at = range.start.saturating_add(position as usize);
        let wanted = range.end.saturating_sub(at).min(to.left());
        let (mut done, mut chunk) = (0, [0; CHUNK]);
        while done < wanted {
            cond_resched_killable()?;
            let len = CHUNK.min(wanted - done);
            let got = space.read(at + done, &mut chunk[..len]);
            match got.and_then(|got| to.put(&chunk[..got])) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

/// An open file about the memory that a process had at the time of open.
pub struct Opened {
    space: Weak<AddressSpace>,
    show: ShowSpace,
    /// The result of a read once the memory is gone.
    gone: Result<()>,
}

/// Writes the text of such a file.
pub type ShowSpace = fn(&AddressSpace, &mut Text) -> Result<()>;

impl Opened {
    /// A file with the text that `show` writes about `space`, a process's memory. Once that
    /// memory is gone, a read fails if `ends` is set, and returns nothing otherwise.
    pub fn new(space: Weak<AddressSpace>, show: ShowSpace, ends: bool) -> Self {
        Opened {
            space,
            show,
            gone: if ends { Err(Errno::ESRCH) } else { Ok(()) },
        }
    }
}

impl Content for Opened {
    fn write(&self, text: &mut Text) -> Result<()> {
        match self.space.upgrade() {
            Some(space) => (self.show)(&space, text),
            None => self.gone,
        }
    }
}

/// The number of pages with the program's own code.
fn code_pages(program: &ProgramRanges) -> usize {
    let code = page_up(program.code.end).saturating_sub(program.code.start / PAGE_SIZE * PAGE_SIZE);
    code / PAGE_SIZE
}

/// statm
pub fn statm(subject: &Subject, text: &mut Text) -> Result<()> {
    let Some(space) = subject.space() else {
        put!(text, "0 0 0 0 0 0 0\n");
        return Ok(());
    };
    let (size, totals) = (space.size(), space.totals());
    let data = (totals.data() + totals.stack()) / PAGE_SIZE;
    let code = code_pages(&space.program());
    let (pages, resident) = (size.vmas, size.resident);
    let shared = space.file_pages().min(resident);
    put!(text, "{pages} {resident} {shared} {code} 0 {data} 0\n");
    Ok(())
}

/// The lines of `status` on memory.
pub fn status(space: &AddressSpace, text: &mut Text) {
    const KIB: usize = PAGE_SIZE / 1024;
    let (size, totals) = (space.size(), space.totals());
    // Files are kept in memory here.
    let shared = space.file_pages().min(size.resident);
    let code = code_pages(&space.program());
    for (name, value) in [
        ("VmPeak", totals.most() / PAGE_SIZE),
        ("VmSize", size.vmas),
        ("VmLck", totals.locked / PAGE_SIZE),
        ("VmPin", 0),
        ("VmHWM", size.peak),
        ("VmRSS", size.resident),
        ("RssAnon", size.resident - shared),
        ("RssFile", 0),
        ("RssShmem", shared),
        ("VmData", totals.data() / PAGE_SIZE),
        ("VmStk", totals.stack() / PAGE_SIZE),
        ("VmExe", code),
        ("VmLib", (totals.code() / PAGE_SIZE).saturating_sub(code)),
        ("VmPTE", size.tables),
        ("VmSwap", 0),
    ] {
        let mut line = Columns::new();
        let line = line.push(name.as_bytes()).push(b":\t");
        text.push(line.right((value * KIB) as u64, 8).push(b" kB\n").bytes());
    }
}

/// Writes the numbers of the set bits as ranges, such as `0-3,7`.
pub fn list_bits(bits: u64, text: &mut Text) {
    let (mut at, mut first) = (0, true);
    while let Some(start) = (at..64).find(|bit| bits >> bit & 1 != 0) {
        let end = (start..64).find(|bit| bits >> bit & 1 == 0).unwrap_or(64);
        put!(text, "{}{start}", if first { "" } else { "," });
        if end > start + 1 {
            put!(text, "-{}", end - 1);
        }
        (at, first) = (end, false);
    }
}

/// The column in which names begin.
const NAMES: usize = 73;

fn line(vma: &Vma, text: &mut Text) {
    let rights = vma.rights.asked();
    let flag = |right, letter| if rights.contains(right) { letter } else { b'-' };
    let shared = if vma.is_shared() { b's' } else { b'p' };
    let flags = [
        b' ',
        flag(Rights::READ, b'r'),
        flag(Rights::WRITE, b'w'),
        flag(Rights::EXECUTE, b'x'),
        shared,
        b' ',
    ];
    let (offset, (device, inode)) = match &vma.source {
        Source::File { mapping, offset } => (*offset, mapping.id()),
        Source::Anonymous => (0, (0, 0)),
    };
    let (major, minor) = crate::fs::device::split(device);
    let mut line = Columns::new();
    let range = line
        .hex(vma.start as u64, 8)
        .push(b"-")
        .hex(vma.end as u64, 8);
    range.push(&flags).hex(offset as u64, 8).push(b" ");
    line.hex(major.into(), 2).push(b":").hex(minor.into(), 2);
    line.push(b" ").decimal(inode).push(b" ");
    match (vma.label.as_str(), &vma.source) {
        ("", Source::File { mapping, .. }) => {
            text.push(line.pad_to(NAMES).bytes());
            _ = mapping.write_name(text);
            text.push(b"\n");
        }
        ("", Source::Anonymous) => text.push(line.push(b"\n").bytes()),
        (label, _) => {
            text.push(line.pad_to(NAMES).bytes());
            text.push(label.as_bytes());
            text.push(b"\n");
        }
    }
}

/// An open file that describes each VMA of the memory the process had at the time of open. The
/// position of a record is its address.
pub struct Areas {
    space: Weak<AddressSpace>,
    show: ShowVma,
}

/// Writes what such a file shows about one VMA.
pub type ShowVma = fn(&AddressSpace, &Vma, &mut Text);

impl Areas {
    /// A file with the text that `show` writes about the VMAs of `space`.
    pub fn new(space: Weak<AddressSpace>, show: ShowVma) -> Self {
        Areas { space, show }
    }
}

impl Records for Areas {
    fn write_error(&self) -> Errno {
        Errno::EINVAL
    }

    fn next(&self, place: u64, text: &mut Text) -> Result<Option<u64>> {
        cond_resched_killable()?;
        let space = self.space.upgrade();
        let found = space.and_then(|space| {
            let vma = space.vma_after(place as usize)?;
            (self.show)(&space, &vma, text);
            Some(vma.end as u64)
        });
        Ok(found)
    }
}

/// maps
pub fn maps(_space: &AddressSpace, vma: &Vma, text: &mut Text) {
    line(vma, text);
}

/// `locked` is the number of bytes locked in memory.
fn usage_lines(size: Option<usize>, usage: &Usage, locked: usize, text: &mut Text) {
    const KIB: usize = PAGE_SIZE / 1024;
    if let Some(size) = size {
        put!(
            text,
            "Size:           {:>8} kB\nKernelPageSize: {KIB:>8} kB\nMMUPageSize:    {KIB:>8} kB\n",
            size / 1024
        );
    }
    let private = usage.resident - usage.shared;
    let dirty = usage.dirty - usage.shared_dirty;
    for (name, value) in [
        ("Rss:", usage.resident * KIB),
        ("Pss:", usage.proportional / 1024),
        ("Pss_Dirty:", dirty * KIB),
        ("Shared_Clean:", (usage.shared - usage.shared_dirty) * KIB),
        ("Shared_Dirty:", usage.shared_dirty * KIB),
        ("Private_Clean:", (private - dirty) * KIB),
        ("Private_Dirty:", dirty * KIB),
        ("Referenced:", usage.referenced * KIB),
        ("Anonymous:", usage.anonymous * KIB),
        ("KSM:", 0),
        ("LazyFree:", 0),
        ("AnonHugePages:", usage.huge * KIB),
        ("ShmemPmdMapped:", 0),
        ("FilePmdMapped:", 0),
        ("Shared_Hugetlb:", 0),
        ("Private_Hugetlb:", 0),
        ("Swap:", 0),
        ("SwapPss:", 0),
        ("Locked:", locked / 1024),
    ] {
        put_kib(text, "", name, value);
    }
}

/// Writes a line with a number of KiB.
pub fn put_kib(text: &mut Text, head: &str, name: &str, kib: usize) {
    let mut line = Columns::new();
    line.push(head.as_bytes())
        .push(name.as_bytes())
        .pad_to(head.len() + 16);
    text.push(line.right(kib as u64, 8).push(b" kB\n").bytes());
}

/// The number of locked pages of all programs; each address space counts once. Pages that are
/// locked on first touch count before they are touched, but no space counts for more than its size.
///
/// # Errors
/// ENOMEM.
pub fn locked_pages() -> Result<usize> {
    let mut spaces = Vec::new();
    let mut enough = true;
    let add = |process: &Arc<Process>| {
        let thread = process.find_thread(Thread::has_space);
        let space = thread.and_then(|thread| thread.space());
        if let Some(space) = space.filter(|space| space.totals().locked > 0) {
            enough &= spaces.try_reserve(1).is_ok();
            if enough {
                spaces.push(space);
            }
        }
    };
    pid_table::for_each(|_| true, add)?;
    if !enough {
        return Err(Errno::ENOMEM);
    }
    heapsort::sort_by_key(&mut spaces, Arc::as_ptr);
    spaces.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let locked = |space: Arc<AddressSpace>| {
        let locked = space.totals().locked / PAGE_SIZE;
        locked.min(space.size().resident)
    };
    Ok(spaces.into_iter().map(locked).sum())
}

/// The number of bytes that a locked VMA holds in memory.
fn locked_bytes(vma: &Vma, usage: &Usage) -> usize {
    if vma.flags.contains(Flags::LOCKED) {
        usage.proportional
    } else {
        0
    }
}

/// smaps
pub fn smaps(space: &AddressSpace, vma: &Vma, text: &mut Text) {
    line(vma, text);
    let usage = space.usage(vma.range());
    let locked = locked_bytes(vma, &usage);
    usage_lines(Some(vma.end - vma.start), &usage, locked, text);
    put!(text, "THPeligible:           0\nVmFlags:");
    let has_right = |right, name| (vma.rights.asked().contains(right), name);
    let has_flag = |flag, name| (vma.flags.contains(flag), name);
    for (has, name) in [
        has_right(Rights::READ, "rd"),
        has_right(Rights::WRITE, "wr"),
        has_right(Rights::EXECUTE, "ex"),
        has_flag(Flags::SHARED, "sh"),
        has_flag(Flags::GROWS_DOWN, "gd"),
        has_flag(Flags::LOCKED, "lo"),
        has_right(Rights::GUARDED, "bt"),
        has_right(Rights::TAGGED, "mt"),
        has_flag(Flags::SEALED, "sl"),
        has_flag(Flags::DROPPABLE, "dp"),
    ] {
        if has {
            put!(text, " {name}");
        }
    }
    text.push(b"\n");
}

/// smaps_rollup
pub fn rollup(space: &AddressSpace, text: &mut Text) -> Result<()> {
    let Some(first) = space.vmas().next() else {
        return Ok(());
    };
    let (mut end, mut locked) = (first.end, 0);
    for vma in space.vmas() {
        end = vma.end;
        locked += locked_bytes(&vma, &space.usage(vma.range()));
        cond_resched_killable()?;
    }
    put!(
        text,
        "{:08x}-{end:08x} ---p 00000000 00:00 0 {:>26}[rollup]\n",
        first.start,
        ""
    );
    usage_lines(None, &space.usage(first.start..end), locked, text);
    Ok(())
}

/// clear_refs
pub fn clear_references(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let wanted: fn(&Vma) -> bool = match bytes.trim_ascii() {
        b"1" => |_| true,
        b"2" => |vma| matches!(vma.source, Source::Anonymous),
        b"3" => |vma| !matches!(vma.source, Source::Anonymous),
        // Soft-dirty state is not kept.
        b"4" => |_| false,
        b"5" => {
            if let Some(space) = subject.space() {
                space.reset_peak();
            }
            return Ok(());
        }
        _ => return Err(Errno::EINVAL),
    };
    if let Some(space) = subject.space() {
        space.clear_references(wanted);
    }
    Ok(())
}
