//! procfs: processes, and information about the kernel.

mod control;
mod fds;
mod map_files;
mod mem;
pub mod memory;
pub mod namespaces;
mod options;
mod pagemap;
mod process;
mod settings;
mod status;
mod subject;
pub mod system;
mod sysvipc;
mod task_net;
mod timer_list;
mod wchan;
pub mod zones;

use super::dentry::Dentry;
use super::file::{File, FileOps, OpenFlags, Record};
use super::inode::{Attr, Inode, Kind, SetAttr};
use super::path::Path;
use super::seq_file::{self, Fixed, Node, Tree};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_format;
use crate::task::sched::cond_resched;
use crate::task::{Process, pid_table};
use alloc::sync::Arc;
pub use options::{Change, Options};
use process::Directory;
use subject::Task;

/// Positions in the root from this one on are process numbers.
const PROCESSES: u64 = 1 << 16;

/// The root directory: the fixed members, then the processes.
struct Root {
    fixed: Arc<Fixed>,
    options: Arc<Options>,
}

/// Names that are not processes.
const OWN: [&[u8]; 2] = [b"self", b"thread-self"];

/// Creates the root of a new procfs.
pub fn root(options: Arc<Options>) -> Result<Arc<Dentry>> {
    let device = super::new_device();
    let fixed = Fixed::root(Node::Directory(system::ROOT), Tree::Proc, device);
    let fixed = crate::mm::heap::try_arc(fixed)?;
    seq_file::root(Root { fixed, options })
}

/// The process whose directory in a procfs is open as `file`.
///
/// # Errors
/// EBADF: `file` is no such directory. ESRCH: the process is gone.
pub fn process_of(file: &File) -> Result<Arc<Process>> {
    let directory = file.ops_as::<Directory>().ok_or(Errno::EBADF)?;
    directory.process()
}

/// The number that a name spells, if any.
fn parse<T: core::str::FromStr>(name: &[u8]) -> Option<T> {
    let digits =
        name.iter().all(u8::is_ascii_digit) && (name == b"0" || name.first() != Some(&b'0'));
    if digits {
        core::str::from_utf8(name).ok()?.parse().ok()
    } else {
        None
    }
}

impl Inode for Root {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        Attr {
            links: 2 + pid_table::count() as u32,
            ..self.fixed.attr()
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.fixed.set_attr(change)
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        let Some(number) = parse(name) else {
            if self.options.pid_only() && !OWN.contains(&name) {
                return Err(Errno::ENOENT);
            }
            return self.fixed.lookup(here, name);
        };
        let who = match pid_table::process(number) {
            Some(process) => Task::new(&process, None),
            // A thread that is not listed can still be looked up.
            None => {
                let thread = pid_table::thread(number).ok_or(Errno::ENOENT)?;
                Task::new(thread.process(), Some(number))
            }
        };
        if !self.options.shows(&who.find()?) {
            return Err(Errno::ENOENT);
        }
        let directory = Directory::new(who, self.fixed.device(), self.options.clone());
        seq_file::dentry(here, name, directory)
    }
}

impl FileOps for Root {
    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        if position < PROCESSES {
            let mut more = true;
            self.fixed.read_dir(file, position, &mut |record| {
                let own =
                    [b"." as &[u8], b".."].contains(&record.name) || OWN.contains(&record.name);
                more = !own && self.options.pid_only() || emit(record);
                more
            })?;
            if !more {
                return Ok(());
            }
        }
        let Ok(mut from) = i32::try_from(position.saturating_sub(PROCESSES)) else {
            return Ok(());
        };
        while let Some(process) = pid_table::next_process(from) {
            let (pid, name) = (
                process.pid(),
                try_format(format_args!("{}", process.pid()))?,
            );
            let next = PROCESSES + pid as u64 + 1;
            from = pid + 1;
            cond_resched();
            let subject = Task::new(&process, None).find();
            if !subject.is_ok_and(|subject| self.options.shows(&subject)) {
                continue;
            }
            let inode = process::number(Task::new(&process, None));
            if !emit(Record {
                inode,
                kind: Kind::Directory,
                name: name.as_bytes(),
                next,
            }) {
                break;
            }
        }
        Ok(())
    }
}
