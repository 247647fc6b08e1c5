//! The directory of a process, and of a thread.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr, XattrChange};
use super::super::mount;
use super::super::path::Path;
use super::super::seq_file::{self, Content, Text};
use super::super::seq_records;
use super::subject::{self, ProcInode, Subject, Task};
use super::{
    Options, control, fds, map_files, mem, memory, namespaces, pagemap, parse, status, task_net,
    wchan,
};
use crate::errno::{Errno, Result};
use crate::mm::ProgramRanges;
use crate::mm::heap::try_format;
use crate::put;
use crate::task::{Process, can, count_groups, oom};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// A member of the directory.
#[derive(Clone, Copy)]
enum Member {
    File(fn(&Subject, &mut Text) -> Result<()>),
    /// Only callers that may inspect the process can read it.
    Private(fn(&Subject, &mut Text) -> Result<()>),
    /// Only callers that may trace the process at the time of the read can read it.
    Traced(fn(&Subject, &mut Text) -> Result<()>),
    Stack,
    /// Describes the memory that the process has at the time of open; with these permissions.
    OfMemory(memory::ShowSpace, u32),
    /// The memory at the time of open, in a range of the program.
    Excerpt(fn(&ProgramRanges) -> Range<usize>),
    /// The program's arguments.
    Arguments,
    /// Describes each VMA of that memory; everybody can read it.
    Areas(memory::ShowVma),
    /// A number, which may be written at any position.
    Number(
        fn(&Subject, &mut Text) -> Result<()>,
        fn(&Subject, &[u8]) -> Result<()>,
    ),
    Setting(
        fn(&Subject, &mut Text) -> Result<()>,
        fn(&Subject, &[u8]) -> Result<()>,
    ),
    /// A setting that everybody may open.
    OpenSetting(
        fn(&Subject, &mut Text) -> Result<()>,
        fn(&Subject, &[u8]) -> Result<()>,
    ),
    /// A setting that only privileged callers may open for writing.
    PrivilegedSetting(
        fn(&Subject, &mut Text) -> Result<()>,
        fn(&Subject, &[u8]) -> Result<()>,
    ),
    /// Describes the mounts that the process sees; with these permissions.
    Mounts(fn(&Path, &mut Text) -> Result<()>, u32),
    /// Can only be written.
    Command(fn(&Subject, &[u8]) -> Result<()>),
    Link(fn(&Subject) -> Result<Path>),
    Memory,
    Pages,
    Descriptors,
    DescriptorInfos,
    MappedFiles,
    Namespaces,
    Net,
    Threads,
}

use Member::{
    Areas, Command, Excerpt, File as Text_, Link as Link_, Mounts, Number, OfMemory, OpenSetting,
    Private, PrivilegedSetting, Setting, Traced,
};

const MEMBERS: &[(&str, Member)] = &[
    ("auxv", Excerpt(|program| program.auxiliary.clone())),
    ("cgroup", Text_(|_, text| Ok(text.push(b"0::/\n")))),
    ("clear_refs", Command(memory::clear_references)),
    ("cmdline", Member::Arguments),
    ("comm", Setting(control::comm, control::set_comm)),
    (
        "crossings",
        Private(|subject, text| count_groups::write(&subject.process, text)),
    ),
    (
        "coredump_filter",
        Number(control::dump_filter, control::set_dump_filter),
    ),
    ("cwd", Link_(|subject| Ok(subject.fs()?.directory()))),
    ("environ", Excerpt(|program| program.environment.clone())),
    (
        "exe",
        Link_(|subject| {
            let program = subject.process.program().ok_or(Errno::ENOENT)?;
            Ok(program.path().clone())
        }),
    ),
    #[cfg(debug_assertions)]
    ("fail-nth", Number(control::fail_nth, control::set_fail_nth)),
    ("fd", Member::Descriptors),
    ("fdinfo", Member::DescriptorInfos),
    (
        "gid_map",
        Setting(control::all_identities, control::set_identities),
    ),
    ("io", Private(status::io)),
    ("limits", Text_(status::limits)),
    ("loginuid", Text_(|_, text| Ok(text.push(b"4294967295")))),
    ("map_files", Member::MappedFiles),
    ("maps", Areas(memory::maps)),
    ("mem", Member::Memory),
    ("mountinfo", Mounts(mount::list_info, 0o444)),
    ("mounts", Mounts(mount::list, 0o444)),
    ("mountstats", Mounts(mount::list_devices, 0o400)),
    ("net", Member::Net),
    ("ns", Member::Namespaces),
    (
        "oom_score",
        Text_(|subject, text| Ok(put!(text, "{}\n", oom::score(&subject.process)))),
    ),
    (
        "oom_score_adj",
        Number(control::oom_adjust, control::set_oom_adjust),
    ),
    ("pagemap", Member::Pages),
    ("personality", Traced(control::personality)),
    (
        "projid_map",
        Setting(control::all_identities, control::set_identities),
    ),
    ("root", Link_(|subject| Ok(subject.fs()?.root()))),
    ("schedstat", Text_(status::schedstat)),
    ("sessionid", Text_(|_, text| Ok(text.push(b"4294967295")))),
    (
        "setgroups",
        PrivilegedSetting(|_, text| Ok(text.push(b"allow\n")), control::set_setgroups),
    ),
    ("smaps", Areas(memory::smaps)),
    ("smaps_rollup", OfMemory(memory::rollup, 0o444)),
    ("stack", Member::Stack),
    ("stat", Text_(status::stat)),
    ("statm", Text_(memory::statm)),
    ("status", Text_(status::status)),
    ("syscall", Traced(wchan::call)),
    ("task", Member::Threads),
    ("timers", Text_(status::timers)),
    (
        "timerslack_ns",
        OpenSetting(control::timer_slack, control::set_timer_slack),
    ),
    ("trace", Number(control::traced, control::set_traced)),
    (
        "uid_map",
        Setting(control::all_identities, control::set_identities),
    ),
    ("wchan", Text_(wchan::channel)),
];

/// Members that a thread's directory lacks.
const OF_PROCESSES: [&str; 6] = [
    "coredump_filter",
    "map_files",
    "mountstats",
    "task",
    "timers",
    "timerslack_ns",
];

impl Member {
    fn kind(self) -> Kind {
        match self {
            Text_(_)
            | Private(_)
            | Traced(_)
            | OfMemory(..)
            | Excerpt(_)
            | Areas(_)
            | Member::Arguments
            | Number(..)
            | Setting(..)
            | OpenSetting(..)
            | PrivilegedSetting(..)
            | Mounts(..)
            | Member::Stack
            | Command(_)
            | Member::Memory
            | Member::Pages => Kind::Regular,
            Link_(_) => Kind::Symlink,
            _ => Kind::Directory,
        }
    }

    fn permissions(self) -> u32 {
        match self {
            Text_(_) | Areas(_) | Member::Arguments => 0o444,
            OfMemory(_, permissions) | Mounts(_, permissions) => permissions,
            Number(..) | Setting(..) | PrivilegedSetting(..) => 0o644,
            OpenSetting(..) => 0o666,
            Command(_) => 0o200,
            Link_(_) => 0o777,
            Member::Memory => 0o600,
            Private(_) | Traced(_) | Excerpt(_) | Member::Pages | Member::Stack => 0o400,
            _ => 0o555,
        }
    }
}

/// The inode number of the directory of a process or thread.
pub fn number(who: Task) -> u64 {
    (who.pid as u64) << 20 | (who.tid.unwrap_or(0) as u64) << 4 | 1
}

/// The directory of a process or thread.
pub struct Directory {
    own: ProcInode,
    options: Arc<Options>,
}

impl Directory {
    /// Creates the directory of `who`.
    pub fn new(who: Task, device: u64, options: Arc<Options>) -> Self {
        let number = number(who);
        Directory {
            own: ProcInode {
                who,
                device,
                number,
            },
            options,
        }
    }

    /// EPERM if the mount's options do not let the caller in.
    fn enter(&self) -> Result<()> {
        if self.options.admits(&self.own.who.find()?) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// The process; ESRCH if it is gone.
    pub fn process(&self) -> Result<Arc<Process>> {
        Ok(self.own.who.find()?.process)
    }

    /// The members of this directory.
    fn members(&self) -> impl Iterator<Item = &'static (&'static str, Member)> {
        let whole = self.own.who.tid.is_none();
        MEMBERS
            .iter()
            .filter(move |(name, _)| whole || !OF_PROCESSES.contains(name))
    }
}

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        self.own.attr(Kind::Directory, 0o555)
    }

    /// The directory is immutable, and so are its attributes.
    fn set_xattr(&self, _name: &[u8], _change: XattrChange) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        self.enter()?;
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.enter()?;
        let (_, member) = self
            .members()
            .find(|(known, _)| known.as_bytes() == name)
            .ok_or(Errno::ENOENT)?;
        let own = self.own.member(name);
        match *member {
            Member::Descriptors => seq_file::dentry(here, name, fds::Directory::new(own, false)),
            Member::DescriptorInfos => seq_file::dentry(here, name, fds::Directory::new(own, true)),
            Member::MappedFiles => seq_file::dentry(here, name, map_files::Directory(own)),
            Member::Namespaces => seq_file::dentry(here, name, namespaces::Directory(own)),
            Member::Net => seq_file::dentry(here, name, task_net::Directory::new(own)),
            Member::Threads => {
                let options = self.options.clone();
                seq_file::dentry(here, name, Threads { own, options })
            }
            member => seq_file::dentry(here, name, Leaf { own, member }),
        }
    }
}

impl FileOps for Directory {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        self.own.who.find().map_err(|_| Errno::ENOENT)?;
        if !seq_file::dots(file.dentry(), position, emit) {
            return Ok(());
        }
        for (at, (name, member)) in self
            .members()
            .enumerate()
            .skip((position as usize).saturating_sub(2))
        {
            let (kind, next) = (member.kind(), at as u64 + 3);
            if !self.own.emit(emit, kind, name.as_bytes(), next) {
                break;
            }
        }
        Ok(())
    }
}

/// A file or link in the directory.
#[derive(Clone, Copy)]
struct Leaf {
    own: ProcInode,
    member: Member,
}

impl Content for Leaf {
    fn write(&self, text: &mut Text) -> Result<()> {
        match self.member {
            Text_(write)
            | Number(write, _)
            | Setting(write, _)
            | OpenSetting(write, _)
            | PrivilegedSetting(write, _) => write(&self.own.who.find()?, text),
            Mounts(write, _) => write(&self.own.who.find()?.fs()?.root(), text),
            Traced(write) => self.own.who.find()?.look(|subject| write(subject, text)),
            // The process may have begun another program by now.
            Private(write) => {
                let subject = self.own.who.find()?;
                let _held = subject.process.hold_program()?;
                if !subject.may_look() {
                    return Err(Errno::EACCES);
                }
                write(&subject, text)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn accept(&self, bytes: &[u8]) -> Result<()> {
        match self.member {
            Number(_, accept)
            | Setting(_, accept)
            | OpenSetting(_, accept)
            | PrivilegedSetting(_, accept)
            | Command(accept) => accept(&self.own.who.find()?, bytes),
            _ => Err(Errno::EINVAL),
        }
    }

    fn is_written_in_order(&self) -> bool {
        !matches!(self.member, Number(..) | Command(_))
    }
}

impl Inode for Leaf {
    fn kind(&self) -> Kind {
        self.member.kind()
    }

    fn attr(&self) -> Attr {
        let (kind, permissions) = (self.kind(), self.member.permissions());
        self.own.attr(kind, permissions)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        let subject = self.own.who.find()?;
        match self.member {
            Private(_) if !subject.may_look() => Err(Errno::EACCES),
            PrivilegedSetting(..) if flags.writable() && !can(CAP_SYS_ADMIN) => Err(Errno::EACCES),
            // A process that has ended sees no mounts.
            Mounts(..) if subject.thread.is_none() => Err(Errno::EINVAL),
            OfMemory(show, permissions) => {
                let space = subject.open_memory()?;
                // Files that everybody may read can be opened even if the process has ended.
                let all = permissions & 0o004 != 0;
                if space.is_none() && !all {
                    return Err(Errno::ESRCH);
                }
                let space = space.unwrap_or_default();
                seq_file::open(memory::Opened::new(space, show, all))
            }
            Excerpt(range) => {
                let space = subject.open_memory()?.ok_or(Errno::ESRCH)?;
                memory::excerpt(move || Ok(space.upgrade()), range)
            }
            Member::Arguments => {
                let who = self.own.who;
                let space = move || Ok(who.find()?.space());
                memory::excerpt(space, |program| program.arguments.clone())
            }
            Areas(show) => {
                let space = subject.open_memory()?.unwrap_or_default();
                seq_records::open(memory::Areas::new(space, show))
            }
            Member::Stack => seq_file::open(wchan::Stack::new(self.own.who)),
            Member::Memory => mem::open(subject.open_memory()?.ok_or(Errno::ESRCH)?),
            Member::Pages => pagemap::open(subject.open_memory()?.ok_or(Errno::ESRCH)?),
            _ => seq_file::open(*self),
        }
    }

    fn link(&self) -> Result<Link> {
        match self.member {
            Link_(target) => {
                // A process that has ended has no such targets.
                let dentry = target(&self.own.who.find_open()?).map_err(|_| Errno::ENOENT)?;
                Ok(Link::Jump(dentry))
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The directory of a process's threads.
struct Threads {
    own: ProcInode,
    options: Arc<Options>,
}

impl Inode for Threads {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        // The first thread counts until the process is waited for.
        let threads = |subject: Subject| subject.process.threads().len().max(1) as u32;
        let links = 2 + self.own.who.find().map_or(0, threads);
        let attr = self.own.attr(Kind::Directory, 0o555);
        Attr { links, ..attr }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let tid = parse(name).ok_or(Errno::ENOENT)?;
        let who = Task {
            tid: Some(tid),
            ..self.own.who
        };
        who.find().map_err(|_| Errno::ENOENT)?;
        let directory = Directory::new(who, self.own.device, self.options.clone());
        seq_file::dentry(here, name, directory)
    }
}

impl FileOps for Threads {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let process = self.own.who.find()?.process;
        if !seq_file::dots(file.dentry(), position, emit) {
            return Ok(());
        }
        let mut tids = Vec::new();
        {
            let threads = process.threads();
            let room = tids.try_reserve_exact(threads.len() + 1);
            room.map_err(|_| Errno::ENOMEM)?;
            let all = threads.iter().map(|thread| thread.tid());
            // The first thread stays until the process is waited for.
            let first = threads.iter().all(|thread| thread.tid() != process.pid());
            let all = all.chain(first.then_some(process.pid()));
            tids.extend(all.filter(|&tid| tid as u64 + 2 >= position));
        }
        heapsort::sort(&mut tids);
        for tid in tids {
            let (name, inode) = (
                try_format(format_args!("{tid}"))?,
                number(Task {
                    tid: Some(tid),
                    ..self.own.who
                }),
            );
            if !emit(Record {
                inode,
                kind: Kind::Directory,
                name: name.as_bytes(),
                next: tid as u64 + 3,
            }) {
                break;
            }
        }
        Ok(())
    }
}
