//! Mounting, and the end of a mount.

use super::V9fs;
use super::session::{LEAST_SIZE, MOST_SIZE, Session};
use crate::drivers::virtio_9p::{self, Line};
use crate::errno::{Errno, Result};
use crate::fs::dentry::Dentry;
use crate::fs::inode::Kind;
use crate::fs::mount::options::number;
use crate::fs::new_device;
use crate::hash;
use crate::mm::heap::try_arc_cyclic;
use crate::sync::{Mutex, SleepRwLock};
use crate::task::current;
use alloc::sync::Arc;
use core::fmt;

/// The channel of a mounted file system, which another mount may have after it.
pub struct Held {
    line: Line,
    /// The size of messages, if mount(2) said one.
    size: Option<u32>,
}

/// What mount(2) says beside its flags.
#[derive(Clone, Copy, Default)]
pub struct Options {
    size: Option<u32>,
}

impl Options {
    /// Takes an option. Of most there is one choice, which may be asked for: what users may do is
    /// decided here by owners and permissions, and done as the one who mounted (`access=any`).
    ///
    /// # Errors
    /// EINVAL: it is another one.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        match (name, value) {
            ("trans", Some("virtio")) | ("version", Some("9p2000.L")) => {}
            ("cache", Some("none")) | ("access", Some("any")) => {}
            ("msize", value) => {
                let size = number(value)?;
                if size < LEAST_SIZE {
                    return Err(Errno::EINVAL);
                }
                self.size = Some(size);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

/// Mounts what the server of the channel with this tag has.
///
/// # Errors
/// ENOENT: there is no such channel. EBUSY: it is mounted. Those of the server.
pub fn mount(tag: &[u8], options: Options) -> Result<(Held, Arc<Dentry>)> {
    let line = virtio_9p::take(tag)?;
    let held = Held {
        line,
        size: options.size,
    };
    let size = options.size.unwrap_or(MOST_SIZE);
    let session = Session::begin(held.line.clone(), size)?;
    let user = current().with_credentials(|who| who.fsuid);
    let (fid, qid) = session.attach(user)?;
    let told = session.stat(&fid, true)?;
    let stat = &told.stat;
    if !stat.qid.is_same(&qid) || Kind::of_mode(stat.mode) != Some(Kind::Directory) {
        return Err(Errno::EIO);
    }
    let fs = try_arc_cyclic(|me| V9fs {
        session,
        device: new_device(),
        nodes: Mutex::new(hash::new()),
        names: SleepRwLock::new(),
        me: me.clone(),
    })?;
    let node = fs.node(fid, &told)?;
    let root = Dentry::named(node.clone(), None, b"")?;
    node.alias.claim(&root);
    Ok((held, root))
}

impl fmt::Display for Held {
    /// As /proc/PID/mounts has its options, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(",access=any")?;
        if let Some(size) = self.size {
            write!(out, ",msize={}", size.min(MOST_SIZE))?;
        }
        out.write_str(",trans=virtio")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.line.give_back();
    }
}
