//! Files whose content the kernel generates when they are read, as in procfs and sysfs.

use super::dentry::Dentry;
use super::file::{File, FileOps, OpenFlags, Record};
use super::inode::{Attr, Inode, Kind, Link, SetAttr, Time, XattrChange};
use super::io::{Sink, Source};
use super::path::Path;
use super::seq_records;
use super::set_attr;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::SleepMutex;
use crate::task::can;
use abi::sysctl::{Invalid, Sysctl};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::{fmt, mem};
use linux_raw_sys::general::CAP_CHECKPOINT_RESTORE;

/// The size of a part of a text, so that a long text needs no contiguous memory.
const PART: usize = 64 << 10;

/// Text that is being generated; only memory limits its size.
#[derive(Default)]
pub struct Text {
    /// Full parts of [`PART`] bytes.
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    failed: bool,
}

impl Text {
    /// Adds bytes that need not be UTF-8.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.failed {
            let (now, later) = bytes.split_at(bytes.len().min(PART - self.last.len()));
            self.failed = self.last.try_reserve(now.len()).is_err();
            if !self.failed {
                self.last.extend_from_slice(now);
            }
            if self.last.len() == PART {
                self.end_part();
            }
            bytes = later;
        }
    }

    #[cold]
    fn end_part(&mut self) {
        self.failed = self.full.try_reserve(1).is_err();
        if !self.failed {
            self.full.push(mem::take(&mut self.last));
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.full.len() * PART + self.last.len()
    }

    /// Its memory in bytes.
    fn held(&self) -> usize {
        self.full.len() * PART + self.last.capacity()
    }

    /// Truncates it, if it is no longer than a part.
    pub fn truncate(&mut self, len: usize) {
        if self.full.is_empty() {
            self.last.truncate(len);
        }
    }

    /// Records that something could not be written for lack of memory.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// ENOMEM if something could not be written.
    pub fn check(&self) -> Result<()> {
        if self.failed {
            Err(Errno::ENOMEM)
        } else {
            Ok(())
        }
    }

    /// The whole text, if all could be written.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn finish(self) -> Result<Self> {
        self.check().map(|()| self)
    }

    /// The whole of a short text, in one piece.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn read_all(self) -> Result<Vec<u8>> {
        let text = self.finish()?;
        if text.full.is_empty() {
            Ok(text.last)
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// Copies the bytes from `position` on, as many as are wanted.
    pub fn read(&self, to: &mut Sink, position: u64) -> Result<usize> {
        let (first, mut offset) = (position as usize / PART, position as usize % PART);
        let parts = self.full.iter().chain([&self.last]).skip(first);
        let mut total = 0;
        for part in parts {
            let bytes = part.get(offset..).unwrap_or_default();
            match to.put(bytes) {
                Err(error) if total == 0 => return Err(error),
                Ok(count) if count == bytes.len() => total += count,
                Ok(count) => return Ok(total + count),
                Err(_) => break,
            }
            offset = 0;
        }
        Ok(total)
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        if self.failed { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Writes formatted text; lack of memory is reported when the text is complete.
#[macro_export]
macro_rules! put {
    ($text:expr, $($argument:tt)*) => {{
        use core::fmt::Write;
        _ = core::write!($text, $($argument)*);
    }};
}

/// A line of a text, whose columns are counted to align what follows.
pub struct Line<'t> {
    text: &'t mut Text,
    columns: usize,
}

impl<'t> Line<'t> {
    /// An empty line.
    pub fn new(text: &'t mut Text) -> Self {
        Line { text, columns: 0 }
    }

    /// Pads the line to `width` columns, if it is shorter, and ends it (Linux's seq_pad).
    pub fn end(self, width: usize) {
        let rest = width.saturating_sub(self.columns);
        put!(self.text, "{:rest$}\n", "");
    }
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.columns += text.len();
        self.text.write_str(text)
    }
}

/// The source of a generated file; one value may serve several files.
pub trait Content: Send + Sync + 'static {
    /// Writes the content.
    fn write(&self, text: &mut Text) -> Result<()>;

    /// Accepts the bytes of one write.
    fn accept(&self, _bytes: &[u8]) -> Result<()> {
        Err(Errno::EINVAL)
    }

    /// Accepts bytes written at a position, for files where that matters; returns the number
    /// accepted.
    fn accept_at(&self, bytes: &[u8], _position: u64) -> Result<usize> {
        self.accept(bytes).map(|()| bytes.len())
    }

    /// Whether writes at a given position are refused ([`FileOps::is_written_in_order`]).
    fn is_written_in_order(&self) -> bool {
        true
    }

    /// Whether a second read returns nothing, as for numbers in `/proc/sys`.
    fn is_read_once(&self) -> bool {
        false
    }

    /// The permissions.
    fn permissions(&self) -> u32 {
        0o444
    }
}

/// A member of a fixed tree.
#[derive(Clone, Copy)]
pub enum Node {
    /// A file with this content.
    File(fn(&mut Text)),
    /// A file with this content, which only root may read.
    Private(fn(&mut Text)),
    /// A file with any number of records.
    Records(seq_records::Next),
    /// A file of records, opened by this function.
    Opened(fn() -> Result<Arc<dyn FileOps>>),
    /// A directory with these members.
    Directory(&'static [(&'static str, Node)]),
    /// A directory whose members depend on the machine.
    Chosen(fn() -> &'static [(&'static str, Node)]),
    /// A directory of settings ([`Tree::Settings`]).
    Settings(&'static [(&'static str, Node)]),
    /// A symbolic link to the text of the function.
    Link(fn(&mut Text)),
    /// A writable file.
    Setting(fn(&mut Text), fn(&[u8]) -> Result<()>),
    /// Numbers of `/proc/sys` that are set together: the function returns how many bytes it
    /// accepted.
    Together(fn(&mut Text), fn(&[u8]) -> Result<usize>),
    /// A writable line of `/proc/sys`, which can be written at any position.
    Line(fn(&mut Text), fn(&[u8], u64) -> Result<()>),
    /// A writable number of `/proc/sys`.
    Number(&'static AtomicUsize, &'static Sysctl),
    /// One or several numbers, with the functions that get and set them.
    Numbers(
        fn(&mut Text),
        fn(usize, i128) -> Result<()>,
        &'static Sysctl,
    ),
    /// A directory with these members, and one for each object of a family: each CPU, each disk.
    Each(&'static [(&'static str, Node)], &'static Family),
    /// A file about one object, in that object's directory.
    Of(fn(usize, &mut Text)),
    /// The same, but writable.
    SettingOf(fn(usize, &mut Text), fn(usize, &[u8]) -> Result<()>),
}

/// Numbered objects that have a member each in a directory.
pub struct Family {
    /// The lowest number from the second argument on in the directory of the first argument's
    /// object.
    pub from: fn(usize, usize) -> Option<usize>,
    /// The name.
    pub name: fn(usize, &mut Text),
    /// The member.
    pub node: fn(usize) -> Node,
}

impl Family {
    /// The number and the member of the object with this name, in the directory of `of`.
    fn find(&self, of: usize, name: &[u8]) -> Result<(usize, Node)> {
        let mut from = 0;
        while let Some(number) = (self.from)(of, from) {
            if self.name_of(number)? == name {
                return Ok((number, (self.node)(number)));
            }
            from = number + 1;
        }
        Err(Errno::ENOENT)
    }

    fn name_of(&self, number: usize) -> Result<Vec<u8>> {
        let mut name = Text::default();
        (self.name)(number, &mut name);
        name.read_all()
    }
}

impl Node {
    /// The settings of a writable number.
    fn number(&self) -> Option<&'static Sysctl> {
        match self {
            Node::Number(_, rule) | Node::Numbers(_, _, rule) => Some(rule),
            _ => None,
        }
    }

    /// Whether the file holds writable numbers.
    fn is_numeric(&self) -> bool {
        matches!(
            self,
            Node::Number(..) | Node::Numbers(..) | Node::Together(..)
        )
    }

    /// Whether it is a file that is written as a whole.
    fn is_setting(&self) -> bool {
        matches!(self, Node::Setting(..) | Node::SettingOf(..))
    }

    /// The type of the file.
    pub fn kind(&self) -> Kind {
        match self {
            Node::File(_)
            | Node::Private(_)
            | Node::Records(_)
            | Node::Opened(_)
            | Node::Setting(..)
            | Node::Together(..)
            | Node::Line(..)
            | Node::Number(..)
            | Node::Numbers(..)
            | Node::Of(_)
            | Node::SettingOf(..) => Kind::Regular,
            Node::Directory(_) | Node::Chosen(_) | Node::Settings(_) | Node::Each(..) => {
                Kind::Directory
            }
            Node::Link(_) => Kind::Symlink,
        }
    }
}

/// The reason why a number is not set.
struct Refused(Errno);

impl From<Invalid> for Refused {
    fn from(_: Invalid) -> Self {
        Refused(Errno::EINVAL)
    }
}

/// A fixed tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tree {
    /// The tree of procfs.
    Proc,
    /// The settings of procfs, `/proc/sys`, whose owners and permissions cannot be changed.
    Settings,
    /// The tree of sysfs.
    Sys,
}

/// A file of a fixed tree, the number of the object in whose directory it is, and the tree.
#[derive(Clone, Copy)]
struct Leaf(Node, usize, Tree);

impl Content for Leaf {
    fn write(&self, text: &mut Text) -> Result<()> {
        match &self.0 {
            Node::Of(write) | Node::SettingOf(write, _) => write(self.1, text),
            Node::File(write)
            | Node::Private(write)
            | Node::Link(write)
            | Node::Setting(write, _)
            | Node::Together(write, _)
            | Node::Line(write, _)
            | Node::Numbers(write, ..) => write(text),
            Node::Number(value, _) => put!(text, "{}\n", value.load(Relaxed)),
            Node::Records(_)
            | Node::Opened(_)
            | Node::Directory(_)
            | Node::Chosen(_)
            | Node::Settings(_)
            | Node::Each(..) => {
                return Err(Errno::EISDIR);
            }
        }
        Ok(())
    }

    fn accept(&self, bytes: &[u8]) -> Result<()> {
        match self.0 {
            Node::Setting(_, accept) => accept(bytes),
            Node::SettingOf(_, accept) => accept(self.1, bytes),
            _ => Err(Errno::EIO),
        }
    }

    /// A number is written at the start of the file; writes at other positions are ignored.
    fn accept_at(&self, bytes: &[u8], position: u64) -> Result<usize> {
        if let Node::Line(_, set) = self.0 {
            return set(bytes, position).map(|()| bytes.len());
        }
        if !self.0.is_numeric() {
            return self.accept(bytes).map(|()| bytes.len());
        }
        if position != 0 || bytes.is_empty() {
            return Ok(bytes.len());
        }
        if let Node::Together(_, set) = self.0 {
            return set(bytes);
        }
        let Some(rule) = self.0.number() else {
            return Err(Errno::EACCES);
        };
        let used = rule.write(bytes, |place, value| {
            match self.0 {
                Node::Number(number, _) => number.store(value as usize, Relaxed),
                Node::Numbers(_, set, _) => set(place, value).map_err(Refused)?,
                _ => {}
            }
            Ok(())
        });
        used.map_err(|Refused(error)| error)
    }

    fn is_written_in_order(&self) -> bool {
        self.2 != Tree::Settings && !self.0.is_setting()
    }

    fn is_read_once(&self) -> bool {
        self.0.is_numeric()
    }

    fn permissions(&self) -> u32 {
        match self.0 {
            Node::File(_) | Node::Records(_) | Node::Opened(_) | Node::Of(_) => 0o444,
            Node::Private(_) => 0o400,
            Node::Directory(_) | Node::Chosen(_) | Node::Settings(_) | Node::Each(..) => 0o555,
            Node::Link(_) => 0o777,
            Node::Setting(..) | Node::SettingOf(..) | Node::Together(..) | Node::Line(..) => 0o644,
            Node::Number(_, rule) | Node::Numbers(_, _, rule) => rule.mode,
        }
    }
}

/// The whole text of `content`.
fn text(content: &dyn Content) -> Result<Text> {
    let mut text = Text::default();
    content.write(&mut text)?;
    text.finish()
}

/// The attributes of a generated inode.
pub fn attr(device: u64, inode: u64, kind: Kind, permissions: u32, owner: (u32, u32)) -> Attr {
    let now = Time::now();
    Attr {
        device,
        inode,
        mode: kind.mode() | permissions,
        links: if kind == Kind::Directory { 2 } else { 1 },
        uid: owner.0,
        gid: owner.1,
        accessed: now,
        modified: now,
        changed: now,
        ..Attr::default()
    }
}

/// A number for the inode called `name` in the directory `parent`.
pub fn number(parent: u64, name: &[u8]) -> u64 {
    let start = parent ^ 0xcbf2_9ce4_8422_2325;
    name.iter().fold(start, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) >> 16
}

/// The inode of a member of a fixed tree.
pub struct Fixed {
    leaf: Leaf,
    device: u64,
    number: u64,
}

/// The number of a tree's root.
const ROOT: u64 = 1;

impl Fixed {
    /// The root of a tree.
    pub fn root(node: Node, tree: Tree, device: u64) -> Self {
        Fixed {
            leaf: Leaf(node, 0, tree),
            device,
            number: ROOT,
        }
    }

    /// A tree inside another directory of the same file system, where it has this number.
    pub fn branch(node: Node, tree: Tree, device: u64, number: u64) -> Self {
        Fixed {
            leaf: Leaf(node, 0, tree),
            device,
            number,
        }
    }

    /// EACCES if the permissions of a setting do not let its owner read or write it, even for root.
    /// With CAP_CHECKPOINT_RESTORE a number may be set regardless.
    fn check_setting(&self, flags: OpenFlags) -> Result<()> {
        let mode = self.leaf.permissions();
        let restores = || self.leaf.0.number().is_some() && can(CAP_CHECKPOINT_RESTORE);
        let reads = !flags.readable() || mode & 0o400 != 0;
        let writes = !flags.writable() || mode & 0o200 != 0 || restores();
        if reads && writes {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// The file system's number.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The names and nodes of the fixed members, and the family that has further ones; ENOTDIR.
    fn members(&self) -> Result<(Members, Option<&'static Family>)> {
        match self.leaf.0 {
            Node::Directory(members) | Node::Settings(members) => Ok((members, None)),
            Node::Chosen(members) => Ok((members(), None)),
            Node::Each(members, family) => Ok((members, Some(family))),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

type Members = &'static [(&'static str, Node)];

impl Inode for Fixed {
    fn kind(&self) -> Kind {
        self.leaf.0.kind()
    }

    fn attr(&self) -> Attr {
        let kind = self.kind();
        let permissions = match self.leaf.2 {
            Tree::Sys if kind == Kind::Directory && self.number != ROOT => 0o755,
            _ => self.leaf.permissions(),
        };
        let first = attr(self.device, self.number, kind, permissions, (0, 0));
        set_attr::apply(self.leaf.2, self.number, first)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        let only_times =
            change.permissions.is_none() && change.uid.is_none() && change.gid.is_none();
        if self.leaf.2 == Tree::Settings && !only_times {
            return Err(Errno::EPERM);
        }
        set_attr::set(self.leaf.2, self.number, change)
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        match self.leaf.2 {
            Tree::Sys => set_attr::xattr(self.number, name),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn set_xattr(&self, name: &[u8], change: XattrChange) -> Result<()> {
        match self.leaf.2 {
            Tree::Sys => set_attr::set_xattr(self.number, name, change),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        match self.leaf.2 {
            Tree::Sys => set_attr::xattrs(self.number),
            _ => Ok(Vec::new()),
        }
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match self.leaf.2 {
            Tree::Settings => self.check_setting(flags)?,
            // Regardless of permissions set by chmod.
            Tree::Sys if flags.writable() && !self.leaf.0.is_setting() => {
                return Err(Errno::EACCES);
            }
            _ => {}
        }
        match self.leaf.0 {
            Node::Records(next) => seq_records::open(next),
            Node::Opened(open) => open(),
            _ if self.kind() == Kind::Directory => Ok(self),
            _ => open(self.leaf),
        }
    }

    fn link(&self) -> Result<Link> {
        match self.leaf.0 {
            Node::Link(_) => text(&self.leaf)?.read_all().map(Link::Path),
            _ => Err(Errno::EINVAL),
        }
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let (members, family) = self.members()?;
        let known = members.iter().find(|(known, _)| known.as_bytes() == name);
        let (of, node) = match (known, family) {
            (Some((_, node)), _) => (self.leaf.1, *node),
            (None, Some(family)) => family.find(self.leaf.1, name)?,
            _ => return Err(Errno::ENOENT),
        };
        let settings = matches!(node, Node::Settings(_));
        let tree = if settings {
            Tree::Settings
        } else {
            self.leaf.2
        };
        let member = Fixed {
            leaf: Leaf(node, of, tree),
            device: self.device,
            number: number(self.number, name),
        };
        dentry(here, name, member)
    }
}

impl FileOps for Fixed {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let (members, family) = self.members()?;
        if !dots(file.dentry(), position, emit) {
            return Ok(());
        }
        for (at, (name, node)) in members
            .iter()
            .enumerate()
            .skip((position as usize).saturating_sub(2))
        {
            let inode = number(self.number, name.as_bytes());
            if !emit(Record {
                inode,
                kind: node.kind(),
                name: name.as_bytes(),
                next: at as u64 + 3,
            }) {
                return Ok(());
            }
        }
        let Some(family) = family else {
            return Ok(());
        };
        let mut from = (position as usize).saturating_sub(members.len() + 2);
        while let Some(of) = (family.from)(self.leaf.1, from) {
            let name = family.name_of(of)?;
            let taken = emit(Record {
                inode: number(self.number, &name),
                kind: (family.node)(of).kind(),
                name: &name,
                next: (members.len() + of) as u64 + 3,
            });
            if !taken {
                break;
            }
            from = of + 1;
        }
        Ok(())
    }
}

/// A new dentry called `name` in directory `here`.
pub fn dentry(here: &Arc<Dentry>, name: &[u8], inode: impl Inode) -> Result<Arc<Dentry>> {
    Dentry::named(try_arc(inode)?, Some(here.clone()), name)
}

/// The root of a file system.
pub fn root(inode: impl Inode) -> Result<Arc<Dentry>> {
    Dentry::named(try_arc(inode)?, None, b"")
}

/// Emits `.` and `..`, the records at positions 0 and 1; false if `emit` wants no more.
pub fn dots(here: &Arc<Dentry>, position: u64, emit: &mut dyn FnMut(Record) -> bool) -> bool {
    let dots: [(&[u8], Arc<Dentry>); 2] = [
        (b".", here.clone()),
        (b"..", here.parent().unwrap_or_else(|| here.clone())),
    ];
    dots.into_iter()
        .enumerate()
        .skip(position as usize)
        .all(|(at, (name, dentry))| {
            let inode = dentry.inode().attr().inode;
            emit(Record {
                inode,
                kind: Kind::Directory,
                name,
                next: at as u64 + 1,
            })
        })
}

/// Opens a file with generated content.
pub fn open(content: impl Content) -> Result<Arc<dyn FileOps>> {
    Ok(try_arc(Opened {
        content,
        text: SleepMutex::new(None),
        held: AtomicUsize::new(0),
    })?)
}

/// An open generated file. The text is generated when it is read from the start, and kept for later
/// reads.
struct Opened<C> {
    content: C,
    text: SleepMutex<Option<Text>>,
    /// The memory of the text.
    held: AtomicUsize,
}

impl<C: Content> FileOps for Opened<C> {
    fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn is_written_in_order(&self) -> bool {
        self.content.is_written_in_order()
    }

    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        if position != 0 && self.content.is_read_once() {
            return Ok(0);
        }
        let mut known = self.text.lock_killable()?;
        if position == 0 || known.is_none() {
            let text = text(&self.content)?;
            self.held.store(text.held(), Relaxed);
            *known = Some(text);
        }
        known.as_ref().map_or(Ok(0), |text| text.read(to, position))
    }

    fn write(&self, _file: &File, from: &mut Source, position: u64) -> Result<usize> {
        let mut bytes = [0; 256];
        let count = from.take(&mut bytes)?;
        self.content.accept_at(&bytes[..count], position)
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_text_that_is_kept_counts() {
        struct Long;
        impl Content for Long {
            fn write(&self, text: &mut Text) -> Result<()> {
                text.push(&[b'x'; 1000]);
                Ok(())
            }
        }
        let ops = open(Long).unwrap();
        let file = super::anonymous::file("long", ops, OpenFlags(0)).unwrap();
        assert_eq!(file.ops().held(), 0);
        let mut byte = [0];
        assert_eq!(file.read(&mut Sink::kernel(&mut byte)), Ok(1));
        assert!(file.ops().held() >= 1000);
    }
}
