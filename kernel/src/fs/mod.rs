//! Files: the tree of names, open files, and the file systems.
//!
//! A name is a [`dentry::Dentry`], the object that it names is an [`inode::Inode`], and open(2)
//! makes a [`file::File`] of it with its [`file::FileOps`]. Files on disks go through the
//! [`page_cache`]; all other files are in memory.

pub mod aio;
mod alias;
pub mod anonymous;
pub mod attr_lock;
pub mod columns;
mod damage;
pub mod dentry;
pub mod device;
pub mod dnotify;
pub mod epoll;
pub mod erofs;
pub mod eventfd;
pub mod ext4;
mod fd_bitmap;
pub mod fdtable;
pub mod file;
pub mod file_lock;
mod file_ops;
pub mod file_table;
pub mod fs_context;
pub mod initramfs;
pub mod inode;
pub mod inotify;
pub mod io;
pub mod kmsg;
pub mod lease;
pub mod mount;
mod names;
mod on_disks;
mod open_flags;
mod overlay;
pub mod page_cache;
pub mod path;
pub mod perm;
pub mod pipe;
pub mod poll;
pub mod proc;
pub mod protected;
mod recent;
pub mod ring;
#[cfg(feature = "selftest")]
mod selftests;
pub mod seq_file;
mod seq_records;
pub mod sequence;
mod set_attr;
pub mod sigio;
pub mod signalfd;
pub mod simple_attr;
mod sysfs;
pub mod timerfd;
pub mod tmpfs;
pub mod trace;
pub mod tty;
mod v9fs;
pub mod walk;
mod weak_file;
pub mod writers;
mod xattr_names;

pub use dentry::Dentry;
pub use fdtable::{FdShare, FdTable};
pub use file::{File, OpenFlags};
pub use fs_context::FsContext;
use fs_context::FsShare;
pub use path::Path;

use crate::errno::{Errno, Result};
use crate::mm::heap::try_format;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use inode::{Inode, Kind};
use linux_raw_sys::general::{MS_NOEXEC, O_RDONLY, O_RDWR};
use walk::Walk;

/// The device number of files in no file system: pipes and their kin.
pub const ANONYMOUS_DEVICE: u64 = 9;
/// The device number of namespaces (nsfs).
const NAMESPACE_DEVICE: u64 = 4;

static ROOT: Mutex<Option<Path>> = Mutex::new(None);

/// Creates the root file system and unpacks the initial archive into it. Called once, before the
/// first program.
pub fn init(archive: Option<&[u8]>) -> Result<()> {
    epoll::init();
    let root = tmpfs::Tmpfs::new_root(&tmpfs::Options::unlimited(0o755))?;
    *ROOT.lock() = Some(mount::init(root.clone())?);
    initramfs::prepare(&root)?;
    if let Some(archive) = archive {
        initramfs::unpack(&root, archive);
    }
    tty::init()
}

/// The root of the whole tree.
///
/// # Panics
/// Before [`init`].
pub fn root() -> Path {
    ROOT.lock().clone().expect("fs::init ran")
}

/// A table whose descriptors 0, 1 and 2 are `/dev/console`.
pub fn console_descriptors() -> Result<FdShare> {
    let files = FdShare::new()?;
    let share = FsShare::new(root())?;
    let dentry = Walk::new(share.context()).resolve(None, b"/dev/console", true)?;
    let console = File::open(dentry, OpenFlags(O_RDWR))?;
    for fd in 0..3 {
        files.table().set(fd, console.clone(), false)?;
    }
    Ok(files)
}

/// Opens a program for exec: a regular file that may be executed.
pub fn open_program(
    context: &FsContext,
    from: Option<&Path>,
    path: &[u8],
    follow: bool,
) -> Result<Arc<File>> {
    program(
        Walk::new(context).resolve(from, path, follow)?,
        OpenFlags::executing(),
    )
}

/// Opens the interpreter of a program, which may be written while it runs.
pub fn open_interpreter(context: &FsContext, path: &[u8]) -> Result<Arc<File>> {
    program(
        Walk::new(context).resolve(None, path, true)?,
        OpenFlags(O_RDONLY),
    )
}

/// Opens for exec a file that is already open.
pub fn reopen_program(file: &File) -> Result<Arc<File>> {
    program(file.path().clone(), OpenFlags::executing())
}

fn program(path: Path, flags: OpenFlags) -> Result<Arc<File>> {
    match path.kind() {
        Kind::Symlink => return Err(Errno::ELOOP),
        Kind::Regular if path.mount_flags() & MS_NOEXEC == 0 => {}
        _ => return Err(Errno::EACCES),
    }
    perm::check(&path, perm::EXECUTE)?;
    File::open(path, flags)
}

/// A new device number for a file system without a device.
fn new_device() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(16);
    device::number(0, NEXT.fetch_add(1, Relaxed) as u32)
}

/// An inode number for a file in no file system.
pub fn new_anonymous_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The dentry of an inode in no directory, shown as `KIND:[NUMBER]`.
pub fn anonymous_dentry(kind: &str, number: u64, inode: Arc<dyn Inode>) -> Result<Arc<Dentry>> {
    let name = try_format(format_args!("{kind}:[{number}]"))?;
    Dentry::named(inode, None, name.as_bytes())
}
