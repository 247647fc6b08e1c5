//! Names of Unix sockets, and the sockets that have them.

use crate::errno::{Errno, Result};
use crate::fs::inode::{Kind, New};
use crate::fs::path::Path;
use crate::fs::walk::Walk;
use crate::fs::{Dentry, inotify, perm};
use crate::hash::{self, HashMap};
use crate::mm::heap::{try_arc, try_bytes, try_concat, try_format};
use crate::net::address::{Address, Name};
use crate::net::socket::Socket;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::general::{IN_CREATE, S_IFSOCK};
use linux_raw_sys::net::AF_UNIX;

/// The size of `sun_path`.
const PATH_MAX: usize = 108;

/// The number of names for sockets that are bound automatically.
const ANYWHERE: u32 = 1 << 20;

/// The identity of a name.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    /// An abstract name, with its leading zero byte, for sockets of one kind.
    Abstract(u32, Arc<[u8]>),
    /// The device and number of a path's inode.
    Inode(u64, u64),
}

/// The named sockets, by the identity of their names.
static BOUND: Mutex<HashMap<Key, Weak<dyn Socket>>> = Mutex::new(hash::new());

/// The name of a socket.
pub struct Bound {
    kind: u32,
    name: Arc<Mutex<Name>>,
    /// With the path of a name in the file system, which keeps the number of its inode in use.
    key: Mutex<Option<(Key, Option<Path>)>>,
}

impl Bound {
    /// An unbound socket of this kind; `name` is the name that it shows.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(kind: u32, name: Name) -> Result<Self> {
        Ok(Bound {
            kind,
            name: try_arc(Mutex::new(name))?,
            key: Mutex::new(None),
        })
    }

    /// The name, which may still change.
    pub fn name(&self) -> &Arc<Mutex<Name>> {
        &self.name
    }

    /// Whether the socket has a name.
    pub fn is_named(&self) -> bool {
        matches!(*self.name.lock(), Name::Unix(_))
    }

    /// bind(2) for `socket`, whose name this is. The inode of a path gets these permissions.
    pub fn bind(
        &self,
        address: &Address,
        socket: Weak<dyn Socket>,
        permissions: u32,
    ) -> Result<()> {
        if address.len() == 2 && address.family() == AF_UNIX {
            return self.bind_anywhere(socket);
        }
        check(address)?;
        if self.is_named() {
            return Err(Errno::EINVAL);
        }
        let path = address.rest();
        if path[0] == 0 {
            return self.bind_abstract(try_bytes(path)?, socket);
        }
        let path = until_zero(path);
        let (directory, dentry) = make(path, permissions)?;
        let taken = self.bind_path(path, directory.with(dentry.clone()), socket);
        taken.inspect_err(|_| _ = directory.inode().remove(&directory, &dentry))
    }

    fn bind_path(&self, path: &[u8], place: Path, socket: Weak<dyn Socket>) -> Result<()> {
        let attr = place.inode().attr();
        let name = try_concat(&[path, &[0]])?;
        let key = Key::Inode(attr.device, attr.inode);
        self.take(key, Some(place), try_bytes(&name)?, socket)
    }

    /// Gives it an unused abstract name, if it has none.
    pub fn bind_anywhere(&self, socket: Weak<dyn Socket>) -> Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        if self.is_named() {
            return Ok(());
        }
        for _ in 0..ANYWHERE {
            let number = NEXT.fetch_add(1, Relaxed) % ANYWHERE;
            let name = try_format(format_args!("\0{number:05x}"))?;
            match self.bind_abstract(try_bytes(name.as_bytes())?, socket.clone()) {
                Err(Errno::EADDRINUSE) => cond_resched_killable()?,
                done => return done,
            }
        }
        Err(Errno::ENOSPC)
    }

    fn bind_abstract(&self, name: Arc<[u8]>, socket: Weak<dyn Socket>) -> Result<()> {
        self.take(Key::Abstract(self.kind, name.clone()), None, name, socket)
    }

    fn take(
        &self,
        key: Key,
        place: Option<Path>,
        name: Arc<[u8]>,
        socket: Weak<dyn Socket>,
    ) -> Result<()> {
        let mut own = self.key.lock();
        if own.is_some() {
            return Err(Errno::EINVAL);
        }
        let mut bound = BOUND.lock();
        if bound.contains_key(&key) {
            return Err(Errno::EADDRINUSE);
        }
        bound.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        bound.insert(key.clone(), socket);
        *own = Some((key, place));
        *self.name.lock() = Name::Unix(name);
        Ok(())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some((key, place)) = self.key.get_mut().take() {
            let gone = BOUND.lock().remove(&key);
            drop(gone);
            // The file system may be freed with it.
            drop(place);
        }
    }
}

fn check(address: &Address) -> Result<()> {
    let len = address.rest().len();
    if len == 0 || len > PATH_MAX || address.family() != AF_UNIX {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn until_zero(path: &[u8]) -> &[u8] {
    path.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Creates the inode of a socket; returns it with its directory.
fn make(path: &[u8], permissions: u32) -> Result<(Path, Arc<Dentry>)> {
    let context = current().fs();
    let (directory, last) = Walk::new(&context).parent(None, path)?;
    let name = last.last_component(Errno::EADDRINUSE)?;
    if last.directory {
        return Err(Errno::ENOENT);
    }
    perm::check(&directory, perm::WRITE | perm::EXECUTE)?;
    let mode = S_IFSOCK | permissions & !context.umask();
    let made = directory
        .inode()
        .create(&directory, name, New::Node(mode, 0));
    match made {
        Err(Errno::EEXIST) => Err(Errno::EADDRINUSE),
        Ok(dentry) => {
            inotify::in_directory(&directory, name, false, IN_CREATE, 0);
            Ok((directory, dentry))
        }
        Err(error) => Err(error),
    }
}

/// The socket with the name `address`; an abstract name is looked up among those of one kind.
pub fn find(address: &Address, kind: u32) -> Result<Arc<dyn Socket>> {
    check(address)?;
    let path = address.rest();
    let key = if path[0] == 0 {
        Key::Abstract(kind, try_bytes(path)?)
    } else {
        let context = current().fs();
        let dentry = Walk::new(&context).resolve(None, until_zero(path), true)?;
        perm::check(&dentry, perm::WRITE)?;
        if dentry.kind() != Kind::Socket {
            return Err(Errno::ECONNREFUSED);
        }
        let attr = dentry.inode().attr();
        Key::Inode(attr.device, attr.inode)
    };
    let found = BOUND.lock().get(&key).and_then(Weak::upgrade);
    found.ok_or(Errno::ECONNREFUSED)
}
