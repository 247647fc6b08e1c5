//! The namespaces of a process: /proc/PID/ns. There is one namespace of each kind, which contains
//! all processes.

use super::super::dentry::Dentry;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::inode::{Attr, Inode, Kind, Link, SetAttr};
use super::super::path::Path;
use super::super::seq_file;
use super::subject::{self, ProcInode};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_format};
use crate::mm::user::UserPtr;
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// A kind of namespaces.
#[derive(Debug)]
pub struct Namespace {
    name: &'static str,
    /// Its flag of clone(2).
    pub kind: u32,
    inode: u64,
}

const fn namespace(name: &'static str, kind: u32, inode: u64) -> Namespace {
    Namespace { name, kind, inode }
}

const USER: &Namespace = &namespace("user", CLONE_NEWUSER, 0xefff_fffd);
const PID: &Namespace = &namespace("pid", CLONE_NEWPID, 0xefff_fffc);
const TIME: &Namespace = &namespace("time", CLONE_NEWTIME, 0xefff_fffa);

/// The links, with the numbers of Linux's first namespaces.
const MEMBERS: &[(&str, &Namespace)] = &[
    ("cgroup", &namespace("cgroup", CLONE_NEWCGROUP, 0xefff_fffb)),
    ("ipc", &namespace("ipc", CLONE_NEWIPC, 0xefff_ffff)),
    ("mnt", &namespace("mnt", CLONE_NEWNS, 0xf000_0001)),
    ("net", &namespace("net", CLONE_NEWNET, 0xf000_0000)),
    ("pid", PID),
    ("pid_for_children", PID),
    ("time", TIME),
    ("time_for_children", TIME),
    ("user", USER),
    ("uts", &namespace("uts", CLONE_NEWUTS, 0xefff_fffe)),
];

/// ioctl(2) of a namespace (linux/nsfs.h).
const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_PARENT: u32 = 0xb702;
const NS_GET_NSTYPE: u32 = 0xb703;
const NS_GET_OWNER_UID: u32 = 0xb704;

impl Namespace {
    fn path(&'static self) -> Result<Path> {
        let name = try_format(format_args!("{}:[{}]", self.name, self.inode))?;
        Ok(Dentry::named(try_arc(Node(self))?, None, name.as_bytes())?.into())
    }
}

/// The target of a namespace's file.
struct Node(&'static Namespace);

impl Inode for Node {
    fn kind(&self) -> Kind {
        Kind::Regular
    }

    fn attr(&self) -> Attr {
        let device = crate::fs::NAMESPACE_DEVICE;
        seq_file::attr(device, self.0.inode, Kind::Regular, 0o444, (0, 0))
    }

    fn open(self: Arc<Self>, _here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        // A namespace's file is immutable.
        if flags.writable() {
            return Err(Errno::EPERM);
        }
        try_arc(Opened(self.0)).map(|opened| opened as Arc<dyn FileOps>)
    }
}

struct Opened(&'static Namespace);

impl FileOps for Opened {
    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        match request {
            NS_GET_NSTYPE => Ok(self.0.kind as usize),
            NS_GET_OWNER_UID if self.0.kind == CLONE_NEWUSER => {
                UserPtr::new(argument).write(&0u32)?;
                Ok(0)
            }
            NS_GET_USERNS if self.0.kind != CLONE_NEWUSER => {
                let file = File::open(USER.path()?, OpenFlags(O_RDONLY))?;
                Ok(current().files().add(file, true)? as usize)
            }
            // The first namespaces have no parents.
            NS_GET_USERNS => Err(Errno::EPERM),
            NS_GET_PARENT if matches!(self.0.kind, CLONE_NEWUSER | CLONE_NEWPID) => {
                Err(Errno::EPERM)
            }
            NS_GET_PARENT | NS_GET_OWNER_UID => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// The namespace that is open as `file`, if any.
pub fn of(file: &File) -> Option<&'static Namespace> {
    file.ops_as::<Opened>().map(|opened| opened.0)
}

/// The directory of the links.
pub struct Directory(pub ProcInode);

impl Inode for Directory {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        self.0.attr(Kind::Directory, 0o511)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.0.who.find().map_err(|_| Errno::ENOENT)?;
        let found = MEMBERS.iter().find(|(known, _)| known.as_bytes() == name);
        let &(name, namespace) = found.ok_or(Errno::ENOENT)?;
        let link = Member {
            own: self.0.member(name.as_bytes()),
            name,
            namespace,
        };
        seq_file::dentry(here, name.as_bytes(), link)
    }
}

impl FileOps for Directory {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        self.0.who.find().map_err(|_| Errno::ENOENT)?;
        if !seq_file::dots(file.dentry(), position, emit) {
            return Ok(());
        }
        let rest = (position as usize).saturating_sub(2);
        for (at, (name, _)) in MEMBERS.iter().enumerate().skip(rest) {
            let next = at as u64 + 3;
            if !self.0.emit(emit, Kind::Symlink, name.as_bytes(), next) {
                break;
            }
        }
        Ok(())
    }
}

/// A link to a namespace.
struct Member {
    own: ProcInode,
    name: &'static str,
    namespace: &'static Namespace,
}

impl Inode for Member {
    fn kind(&self) -> Kind {
        Kind::Symlink
    }

    fn attr(&self) -> Attr {
        self.own.attr(Kind::Symlink, 0o777)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        subject::set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }

    fn link(&self) -> Result<Link> {
        let subject = self.own.who.find_open()?;
        // A process that has ended is only in a PID namespace and a user namespace.
        if subject.thread.is_none() && !matches!(self.name, "pid" | "user") {
            return Err(Errno::ENOENT);
        }
        Ok(Link::Jump(self.namespace.path()?))
    }
}
