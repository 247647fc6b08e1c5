//! The directory of a process, and of a thread.

use super::super::entry::Entry;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::generated::{self, Content, Text};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr};
use super::super::{mount, tty};
use super::{fds, mem, memory, pagemap, parse};
use crate::errno::{Errno, Result};
use crate::mm::{AddressSpace, PAGE_SIZE, Size};
use crate::put;
use crate::task::process::Image;
use crate::task::sched::state;
use crate::task::thread::Resources;
use crate::task::usage::{Times, Usage, user_hz};
use crate::task::{Process, Thread, access, counting, current, tree};
use alloc::format;
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// Which process or thread a directory is of.
#[derive(Clone, Copy)]
pub struct Who {
    /// The process.
    pub pid: i32,
    /// The thread, or the whole process.
    pub tid: Option<i32>,
}

/// The process and thread, as they are now. A process that ended and was not waited for has no thread.
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, or the process's first.
    pub thread: Option<Arc<Thread>>,
    /// Whether the thread alone is meant.
    alone: bool,
}

impl Who {
    /// Who that is now; ESRCH when it is gone.
    pub fn find(self) -> Result<Subject> {
        let process = tree::process(self.pid).ok_or(Errno::ESRCH)?;
        let thread = match self.tid {
            Some(tid) => Some(
                tree::thread(tid)
                    .filter(|thread| thread.process_id() == self.pid)
                    .ok_or(Errno::ESRCH)?,
            ),
            None => process.find_thread(|_| true),
        };
        Ok(Subject {
            process,
            thread,
            alone: self.tid.is_some(),
        })
    }
}

impl Subject {
    fn resources(&self) -> Resources {
        self.thread
            .as_ref()
            .map(|thread| thread.resources())
            .unwrap_or_default()
    }

    /// The address space, if it still has one.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.resources().space
    }

    /// The descriptors; ESRCH when it has ended.
    pub fn files(&self) -> Result<Arc<crate::fs::FdTable>> {
        self.resources().files.ok_or(Errno::ESRCH)
    }

    fn fs(&self) -> Result<Arc<crate::fs::FsContext>> {
        self.resources().fs.ok_or(Errno::ESRCH)
    }

    fn tid(&self) -> i32 {
        self.thread
            .as_ref()
            .map_or(self.process.pid(), |thread| thread.tid())
    }

    fn times(&self) -> Times {
        match &self.thread {
            Some(thread) if self.alone => thread.times(),
            _ => self.process.times(),
        }
    }

    fn usage(&self) -> Usage {
        match &self.thread {
            Some(thread) if self.alone => Usage::of(thread),
            _ => self.process.usage(),
        }
    }

    fn owner(&self) -> (u32, u32) {
        self.process.with_credentials(|who| (who.euid, who.egid))
    }

    fn state(&self) -> (char, &'static str) {
        let Some(thread) = &self.thread else {
            return ('Z', "zombie");
        };
        if self.process.is_zombie() {
            return ('Z', "zombie");
        }
        match thread.sched.state() {
            state::RUNNABLE => ('R', "running"),
            state::INTERRUPTIBLE => ('S', "sleeping"),
            state::STOPPED => ('T', "stopped"),
            state::TRACED => ('t', "tracing stop"),
            state::DEAD => ('X', "dead"),
            _ => ('D', "disk sleep"),
        }
    }

    fn name(&self) -> [u8; 16] {
        self.thread
            .as_ref()
            .map(|thread| thread.name())
            .unwrap_or_default()
    }

    /// The sets of signals that are pending for the thread, blocked, ignored and caught.
    fn signals(&self) -> [u64; 4] {
        let actions = self.process.signals.actions();
        let handlers = |wanted: fn(usize) -> bool| {
            (1..=64)
                .filter(|&number| wanted(actions.get(number).handler))
                .fold(0, |set, number| set | 1 << (number - 1))
        };
        let shared = self.process.signals.pending.lock().set();
        let pending = self
            .thread
            .as_ref()
            .map_or(0, |thread| thread.pending() & !shared);
        let blocked = self.thread.as_ref().map_or(0, |thread| thread.blocked());
        [
            pending,
            blocked,
            handlers(|handler| handler == 1),
            handlers(|handler| handler > 1),
        ]
    }
}

/// A name's bytes, up to the first zero.
fn trim(name: &[u8; 16]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A member of the directory.
#[derive(Clone, Copy)]
enum Member {
    File(fn(&Subject, &mut Text) -> Result<()>),
    /// Only for who may look into the process.
    Private(fn(&Subject, &mut Text) -> Result<()>),
    Setting(
        fn(&Subject, &mut Text) -> Result<()>,
        fn(&Subject, &[u8]) -> Result<()>,
    ),
    Link(fn(&Subject) -> Result<Arc<Entry>>),
    Memory,
    Pages,
    Descriptors,
    DescriptorInfos,
    Threads,
}

use Member::{File as Text_, Link as Link_, Private, Setting};

const MEMBERS: &[(&str, Member)] = &[
    ("auxv", Private(memory::auxiliary)),
    ("cgroup", Text_(|_, text| Ok(text.push(b"0::/\n")))),
    (
        "clear_refs",
        Setting(|_, _| Err(Errno::EINVAL), memory::clear_references),
    ),
    ("cmdline", Text_(memory::arguments)),
    ("comm", Setting(comm, set_comm)),
    (
        "crossings",
        Text_(|subject, text| counting::write(&subject.process, text)),
    ),
    ("coredump_filter", Setting(dump_filter, set_dump_filter)),
    ("cwd", Link_(|subject| Ok(subject.fs()?.directory()))),
    ("environ", Private(memory::environment)),
    (
        "exe",
        Link_(|subject| {
            Ok(subject
                .process
                .image()
                .file
                .ok_or(Errno::ENOENT)?
                .entry()
                .clone())
        }),
    ),
    ("fd", Member::Descriptors),
    ("fdinfo", Member::DescriptorInfos),
    ("gid_map", Text_(all_identities)),
    ("io", Private(io)),
    ("limits", Text_(limits)),
    ("loginuid", Text_(|_, text| Ok(text.push(b"4294967295")))),
    ("maps", Text_(memory::maps)),
    ("mem", Member::Memory),
    (
        "mountinfo",
        Text_(|subject, text| {
            _ = mount::list_info(&subject.fs()?.root(), text);
            Ok(())
        }),
    ),
    (
        "mounts",
        Text_(|subject, text| {
            _ = mount::list(&subject.fs()?.root(), text);
            Ok(())
        }),
    ),
    ("oom_score", Text_(|_, text| Ok(text.push(b"0\n")))),
    ("oom_score_adj", Setting(oom_adjust, set_oom_adjust)),
    ("pagemap", Member::Pages),
    ("personality", Text_(personality)),
    ("root", Link_(|subject| Ok(subject.fs()?.root()))),
    ("sessionid", Text_(|_, text| Ok(text.push(b"4294967295")))),
    ("setgroups", Text_(|_, text| Ok(text.push(b"allow\n")))),
    ("smaps", Text_(memory::smaps)),
    ("smaps_rollup", Text_(memory::rollup)),
    ("stat", Text_(stat)),
    ("statm", Text_(memory::statm)),
    ("status", Text_(status)),
    ("task", Member::Threads),
    ("trace", Setting(traced, set_traced)),
    ("uid_map", Text_(all_identities)),
    ("wchan", Text_(|_, text| Ok(text.push(b"0")))),
];

impl Member {
    fn kind(self) -> Kind {
        match self {
            Text_(_) | Private(_) | Setting(..) | Member::Memory | Member::Pages => Kind::Regular,
            Link_(_) => Kind::Symlink,
            _ => Kind::Directory,
        }
    }

    fn permissions(self) -> u32 {
        match self {
            Text_(_) => 0o444,
            Setting(..) => 0o644,
            Link_(_) => 0o777,
            Member::Memory => 0o600,
            Private(_) | Member::Pages => 0o400,
            _ => 0o555,
        }
    }
}

/// The number of a process's or thread's directory.
pub fn number(who: Who) -> u64 {
    (who.pid as u64) << 20 | (who.tid.unwrap_or(0) as u64) << 4 | 1
}

/// The directory of a process or thread.
pub struct Directory {
    who: Who,
    device: u64,
}

impl Directory {
    /// The directory of `who`.
    pub fn new(who: Who, device: u64) -> Self {
        Directory { who, device }
    }

    /// The number of the process.
    pub fn pid(&self) -> i32 {
        self.who.pid
    }

    /// Members that this directory has: a thread's has no threads.
    fn members(&self) -> impl Iterator<Item = &'static (&'static str, Member)> {
        let threads = self.who.tid.is_none();
        MEMBERS
            .iter()
            .filter(move |(_, member)| threads || !matches!(member, Member::Threads))
    }
}

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        let owner = self.who.find().map_or((0, 0), |subject| subject.owner());
        generated::attr(self.device, number(self.who), Kind::Directory, 0o555, owner)
    }

    fn open(self: Arc<Self>, _here: &Arc<Entry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Entry>, name: &[u8]) -> Result<Arc<Entry>> {
        self.who.find().map_err(|_| Errno::ENOENT)?;
        let (_, member) = self
            .members()
            .find(|(known, _)| known.as_bytes() == name)
            .ok_or(Errno::ENOENT)?;
        let inode = generated::number(number(self.who), name);
        let (who, device) = (self.who, self.device);
        match *member {
            Member::Descriptors => {
                generated::entry(here, name, fds::Directory::new(who, device, inode, false))
            }
            Member::DescriptorInfos => {
                generated::entry(here, name, fds::Directory::new(who, device, inode, true))
            }
            Member::Threads => generated::entry(here, name, Threads { who, device, inode }),
            member => generated::entry(
                here,
                name,
                Leaf {
                    who,
                    member,
                    device,
                    inode,
                },
            ),
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
        self.who.find().map_err(|_| Errno::ENOENT)?;
        if !generated::dots(file.entry(), position, emit) {
            return Ok(());
        }
        for (at, (name, member)) in self
            .members()
            .enumerate()
            .skip((position as usize).saturating_sub(2))
        {
            let inode = generated::number(number(self.who), name.as_bytes());
            if !emit(Record {
                inode,
                kind: member.kind(),
                name: name.as_bytes(),
                next: at as u64 + 3,
            }) {
                break;
            }
        }
        Ok(())
    }
}

/// A file or link in the directory.
#[derive(Clone, Copy)]
struct Leaf {
    who: Who,
    member: Member,
    device: u64,
    inode: u64,
}

impl Content for Leaf {
    fn write(&self, text: &mut Text) -> Result<()> {
        match self.member {
            Text_(write) | Private(write) | Setting(write, _) => write(&self.who.find()?, text),
            _ => Err(Errno::EINVAL),
        }
    }

    fn accept(&self, bytes: &[u8]) -> Result<()> {
        match self.member {
            Setting(_, accept) => accept(&self.who.find()?, bytes),
            _ => Err(Errno::EACCES),
        }
    }
}

impl Inode for Leaf {
    fn kind(&self) -> Kind {
        self.member.kind()
    }

    fn attr(&self) -> Attr {
        let owner = self.who.find().map_or((0, 0), |subject| subject.owner());
        generated::attr(
            self.device,
            self.inode,
            self.kind(),
            self.member.permissions(),
            owner,
        )
    }

    fn set_attr(&self, _change: &SetAttr) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Arc<Entry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        let subject = self.who.find()?;
        match self.member {
            Private(_) if access::check(&subject.process).is_err() => Err(Errno::EACCES),
            Member::Memory => mem::open(self.who),
            Member::Pages => pagemap::open(self.who),
            _ => generated::open(*self),
        }
    }

    fn link(&self) -> Result<Link> {
        match self.member {
            Link_(target) => {
                // Who has ended has none of them.
                let entry = target(&self.who.find()?).map_err(|_| Errno::ENOENT)?;
                Ok(Link::Entry(entry))
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The directory of a process's threads.
struct Threads {
    who: Who,
    device: u64,
    inode: u64,
}

impl Inode for Threads {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        let (links, owner) = match self.who.find() {
            Ok(subject) => (2 + subject.process.threads().len() as u32, subject.owner()),
            Err(_) => (2, (0, 0)),
        };
        let attr = generated::attr(self.device, self.inode, Kind::Directory, 0o555, owner);
        Attr { links, ..attr }
    }

    fn open(self: Arc<Self>, _here: &Arc<Entry>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Entry>, name: &[u8]) -> Result<Arc<Entry>> {
        let tid = parse(name).ok_or(Errno::ENOENT)?;
        let who = Who {
            tid: Some(tid),
            ..self.who
        };
        who.find().map_err(|_| Errno::ENOENT)?;
        generated::entry(here, name, Directory::new(who, self.device))
    }
}

impl FileOps for Threads {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let process = self.who.find()?.process;
        if !generated::dots(file.entry(), position, emit) {
            return Ok(());
        }
        let mut position = position.max(2);
        loop {
            let next = process
                .threads()
                .iter()
                .map(|thread| thread.tid())
                .filter(|&tid| tid as u64 + 2 >= position)
                .min();
            let Some(tid) = next else { return Ok(()) };
            position = tid as u64 + 3;
            let (name, inode) = (
                format!("{tid}"),
                number(Who {
                    tid: Some(tid),
                    ..self.who
                }),
            );
            if !emit(Record {
                inode,
                kind: Kind::Directory,
                name: name.as_bytes(),
                next: position,
            }) {
                return Ok(());
            }
        }
    }
}

fn personality(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{:08x}\n", subject.process.personality());
    Ok(())
}

fn comm(subject: &Subject, text: &mut Text) -> Result<()> {
    text.push(trim(&subject.name()));
    text.push(b"\n");
    Ok(())
}

fn set_comm(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let name = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    subject.thread.as_ref().ok_or(Errno::ESRCH)?.set_name(name);
    Ok(())
}

fn traced(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{}\n", subject.process.is_traced() as u8);
    Ok(())
}

/// A process sets this for itself only.
fn set_traced(subject: &Subject, bytes: &[u8]) -> Result<()> {
    if subject.process.pid() != current().process_id() {
        return Err(Errno::EPERM);
    }
    match bytes.trim_ascii() {
        b"0" => counting::set_traced(false),
        b"1" => counting::set_traced(true),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// There is one user namespace, which has all users and groups.
fn all_identities(_subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX);
    Ok(())
}

fn dump_filter(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{:08x}\n", subject.process.dump_filter());
    Ok(())
}

fn set_dump_filter(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let text = core::str::from_utf8(bytes.trim_ascii()).map_err(|_| Errno::EINVAL)?;
    let filter = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    subject
        .process
        .set_dump_filter(filter.map_err(|_| Errno::EINVAL)?);
    Ok(())
}

fn oom_adjust(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{}\n", subject.process.oom_adjust());
    Ok(())
}

fn set_oom_adjust(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let value = core::str::from_utf8(bytes.trim_ascii())
        .ok()
        .and_then(|text| text.parse().ok());
    match value {
        Some(value @ -1000..=1000) => subject.process.set_oom_adjust(value),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

fn stat(subject: &Subject, text: &mut Text) -> Result<()> {
    let process = &subject.process;
    put!(text, "{} (", subject.tid());
    text.push(trim(&subject.name()));
    let (terminal, foreground) = tty::of_process(process.session());
    let parent = process.parent();
    put!(
        text,
        ") {} {parent} {} {}",
        subject.state().0,
        process.group(),
        process.session()
    );
    put!(
        text,
        " {terminal} {foreground} 0 {} {} 0 0",
        subject.usage().faults,
        process.children_usage().faults
    );
    let (user, system) = subject.times().in_user_hz();
    let (children_user, children_system) = process.children_times().in_user_hz();
    let nice = subject.thread.as_ref().map_or(0, |thread| thread.nice());
    let thread = subject.thread.as_ref();
    let shown = match thread.map(|thread| (thread.sched.priority(), thread.policy().0)) {
        Some((_, SCHED_DEADLINE)) => -101,
        None | Some((0, _)) => 20 + nice,
        Some((priority, _)) => -1 - priority as i32,
    };
    put!(
        text,
        " {user} {system} {children_user} {children_system} {shown} {nice} {} 0",
        process.threads().len().max(1)
    );
    let size = subject
        .space()
        .map_or(Size::default(), |space| space.size());
    put!(
        text,
        " {} {} {} {}",
        user_hz(process.started()),
        size.areas * PAGE_SIZE,
        size.resident,
        process.limits.soft(RLIMIT_RSS)
    );
    // Addresses are told to who may look into the process.
    let space = subject.space();
    let permitted = access::check(process).is_ok();
    let image = match (&space, permitted) {
        (Some(_), true) => process.image(),
        (Some(_), false) => Image {
            code: 1..1,
            ..Image::default()
        },
        (None, _) => Image::default(),
    };
    put!(
        text,
        " {} {} {} 0 0",
        image.code.start,
        image.code.end,
        image.stack
    );
    let [pending, blocked, ignored, caught] = subject.signals();
    let waits = permitted && subject.state().0 != 'R';
    put!(
        text,
        " {pending} {blocked} {ignored} {caught} {} 0 0 17",
        u8::from(waits)
    );
    let (cpu, (policy, priority)) = subject
        .thread
        .as_ref()
        .map_or((0, (0, 0)), |thread| (thread.sched.cpu(), thread.policy()));
    let heap = space
        .filter(|_| permitted)
        .map_or(0, |space| space.heap_start());
    put!(
        text,
        " {cpu} {priority} {policy} 0 0 0 {} {} {heap}",
        image.data.start,
        image.data.end
    );
    let (arguments, environment) = (image.arguments, image.environment);
    put!(
        text,
        " {} {} {} {}",
        arguments.start,
        arguments.end,
        environment.start,
        environment.end
    );
    let status = process.exit_status().filter(|_| permitted);
    put!(text, " {}\n", status.unwrap_or(0));
    Ok(())
}

fn status(subject: &Subject, text: &mut Text) -> Result<()> {
    let process = &subject.process;
    put!(text, "Name:\t");
    text.push(trim(&subject.name()));
    let umask = subject.fs().map_or(0o022, |fs| fs.umask());
    let (letter, word) = subject.state();
    put!(
        text,
        "\nUmask:\t{umask:04o}\nState:\t{letter} ({word})\nTgid:\t{}\nNgid:\t0\n",
        process.pid()
    );
    put!(
        text,
        "Pid:\t{}\nPPid:\t{}\nTracerPid:\t{}\n",
        subject.tid(),
        process.parent(),
        subject
            .thread
            .as_ref()
            .and_then(|thread| thread.tracer())
            .map_or(0, |tracer| tracer.pid())
    );
    process.with_credentials(|who| {
        put!(
            text,
            "Uid:\t{}\t{}\t{}\t{}\n",
            who.uid,
            who.euid,
            who.suid,
            who.fsuid
        );
        put!(
            text,
            "Gid:\t{}\t{}\t{}\t{}\n",
            who.gid,
            who.egid,
            who.sgid,
            who.fsgid
        );
    });
    put!(
        text,
        "FDSize:\t{}\nGroups:\t",
        subject.files().map_or(0, |files| files.size())
    );
    process.with_credentials(|who| who.groups.iter().for_each(|group| put!(text, "{group} ")));
    put!(text, "\n");
    if let Some(space) = subject.space() {
        memory::status(&space, text);
    }
    let [pending, blocked, ignored, caught] = subject.signals();
    let shared = process.signals.pending.lock().set();
    put!(
        text,
        "Threads:\t{}\nSigQ:\t0/{}\n",
        process.threads().len().max(1),
        process.limits.soft(RLIMIT_SIGPENDING)
    );
    put!(
        text,
        "SigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
    );
    put!(text, "SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n");
    let (mode, filters) = subject.thread.as_ref().map_or((0, 0), |thread| {
        (thread.seccomp.mode(), thread.seccomp.count())
    });
    process.with_credentials(|who| {
        put!(
            text,
            "CapInh:\t{:016x}\nCapPrm:\t{:016x}\n",
            who.inheritable,
            who.permitted
        );
        put!(
            text,
            "CapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n",
            who.effective,
            who.bounding,
            who.ambient
        );
        put!(
            text,
            "NoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}\n",
            u8::from(who.no_new_privileges),
            mode,
            filters
        );
    });
    if let Some(thread) = &subject.thread {
        let allowed = thread.sched.allowed();
        put!(text, "Cpus_allowed:\t{allowed:x}\nCpus_allowed_list:\t");
        memory::list_bits(allowed, text);
        let (sleeps, preemptions) = thread.sched.switches();
        put!(
            text,
            "\nvoluntary_ctxt_switches:\t{sleeps}\nnonvoluntary_ctxt_switches:\t{preemptions}\n"
        );
    }
    Ok(())
}

fn io(subject: &Subject, text: &mut Text) -> Result<()> {
    let sums = match &subject.thread {
        Some(thread) if subject.alone => thread.transfers.sums(),
        _ => subject.process.transfers(),
    };
    let ([read, written], [reads, writes]) = (sums.bytes, sums.calls);
    put!(
        text,
        "rchar: {read}\nwchar: {written}\nsyscr: {reads}\nsyscw: {writes}\n"
    );
    put!(
        text,
        "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
    );
    Ok(())
}

/// The limits in the order of their numbers: name, and unit.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

fn limits(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(
        text,
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit",
        "Soft Limit",
        "Hard Limit",
        "Units"
    );
    for (kind, (name, unit)) in LIMITS.iter().enumerate() {
        let limit = subject.process.limits.get(kind as u32)?;
        let [soft, hard] = [limit.soft, limit.hard].map(|value| match value {
            usize::MAX => format!("unlimited"),
            value => format!("{value}"),
        });
        put!(text, "{name:<25} {soft:<20} {hard:<20} {unit:<10}\n");
    }
    Ok(())
}
