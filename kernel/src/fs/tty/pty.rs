//! Pseudo-terminals: a terminal whose line is a program that holds the master.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{File, FileOps, OpenFlags, Record};
use super::super::inode::{Attr, Inode, Kind, SetAttr};
use super::super::io::{Sink, Source};
use super::super::path::Path;
use super::super::poll::{Events, PollTable, WaitSource};
use super::super::simple_attr::SimpleAttr;
use super::pts_options::{Instance, Options};
use super::{Line, Tty, open_tty};
use crate::errno::{Errno, Result};
use crate::mm::heap::{check_room, try_arc, try_format};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::{cond_resched, cond_resched_interruptible};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use ldisc::Termios;
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::*;

/// The major number of the slaves.
const MAJOR: u32 = 136;
/// The maximum number of pseudo-terminals (Linux's `kernel.pty.max`).
pub const MAX: u32 = 4096;

/// The additional state of a terminal that is one end of a pseudo-terminal pair.
#[derive(Default)]
pub struct State {
    /// Notified when there is output, and when there is room for input.
    master: Option<Arc<WaitSource>>,
    slaves: usize,
    /// Packet mode: each read of the master begins with a control byte (TIOCPKT).
    packets: bool,
    /// The events since the master's last read in packet mode: TIOCPKT_* bits.
    status: u32,
    /// A slave was open, and all slaves are closed now.
    abandoned: bool,
    locked: bool,
    attr: Option<SimpleAttr>,
}

impl State {
    /// In packet mode, replaces the status bits in `of` with `bits`.
    pub(super) fn report(&mut self, of: u32, bits: u32) {
        if self.packets {
            self.status = self.status & !of | bits;
        }
    }

    /// TIOCPKT
    fn set_packets(&mut self, on: bool) {
        if on && !self.packets {
            self.status = 0;
        }
        self.packets = on;
    }

    /// Whether the master can read something other than output.
    fn has_report(&self) -> bool {
        self.packets && self.status != 0
    }
}

/// All pairs, by the device number of their file system and their index there. The master holds the
/// pair.
static PAIRS: Mutex<BTreeMap<(u64, u32), Weak<Tty>>> = Mutex::new(BTreeMap::new());

impl Instance {
    /// The terminal with the number `index`.
    fn find(&self, index: u32) -> Option<Arc<Tty>> {
        PAIRS.lock().get(&(self.device, index))?.upgrade()
    }

    /// Reserves the lowest free number below `max` for a terminal that cannot be found yet.
    ///
    /// # Errors
    /// ENOSPC, ENOMEM.
    fn reserve(&self, max: u32) -> Result<u32> {
        let _room = check_room()?;
        let mut pairs = PAIRS.lock();
        if pairs.len() >= MAX as usize {
            return Err(Errno::ENOSPC);
        }
        let all = (self.device, 0)..=(self.device, u32::MAX);
        let taken = pairs.range(all).map(|(&(_, index), _)| index);
        let from_first = taken.zip(0..).take_while(|(index, at)| index == at);
        let index = from_first.count() as u32;
        if index >= max {
            return Err(Errno::ENOSPC);
        }
        pairs.insert((self.device, index), Weak::new());
        Ok(index)
    }

    /// The lowest number of a terminal, from `index` on.
    fn next(&self, index: u32) -> Option<u32> {
        let pairs = PAIRS.lock();
        let all = (self.device, index)..=(self.device, u32::MAX);
        let (&(_, found), _) = pairs.range(all).next()?;
        Some(found)
    }
}

/// The first terminal, in any file system, for which `wanted` holds. May sleep.
pub fn find_by(wanted: impl Fn(&Arc<Tty>) -> bool) -> Option<Arc<Tty>> {
    let mut next = (0, 0);
    loop {
        let ((device, index), tty) = {
            let pairs = PAIRS.lock();
            let (place, tty) = pairs.range(next..).next()?;
            (*place, tty.upgrade())
        };
        if let Some(tty) = tty.filter(&wanted) {
            return Some(tty);
        }
        next = (device, index + 1);
        cond_resched();
    }
}

/// The root of the file system that a master at `path` belongs to: the file system that contains
/// `path`, or the one at `pts` next to it.
///
/// # Errors
/// ENOENT: there is no `pts`. ENODEV: it is another file system. ENOMEM.
fn root_for(path: &Path) -> Result<(Path, Arc<Instance>)> {
    let of = |path: &Path| path.mount()?.fs().terminals().cloned();
    if let (Some(instance), Some(mount)) = (of(path), path.mount()) {
        return Ok((path.with(mount.fs().root().clone()), instance));
    }
    let folder = path.parent().filter(|_| !path.is_mount_root());
    let folder = folder.ok_or(Errno::ENOENT)?;
    let beside = folder.inode().lookup(&folder, b"pts")?;
    let root = path.with(beside).covering();
    let instance = of(&root).filter(|_| root.mount().is_some_and(|it| root.is_root_of(it.fs())));
    Ok((root, instance.ok_or(Errno::ENODEV)?))
}

impl Tty {
    /// The source that wakes a waiting master.
    pub(super) fn master_source(&self) -> Arc<WaitSource> {
        let source = self.state.lock().pty.master.clone();
        source.unwrap_or_else(|| self.readable.clone())
    }

    pub(super) fn slave_opened(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.pty.locked || state.hung_up {
            return Err(Errno::EIO);
        }
        state.pty.slaves += 1;
        state.pty.abandoned = false;
        Ok(())
    }

    pub(super) fn slave_closed(&self) {
        let last = {
            let mut state = self.state.lock();
            state.pty.slaves -= 1;
            state.pty.abandoned = state.pty.slaves == 0;
            // A pseudo-terminal remains as it is for as long as its master is open.
            state.exclusive &= self.is_pty() || !state.pty.abandoned;
            state.pty.abandoned
        };
        if last && self.is_pty() {
            self.master_source().notify();
        }
    }
}

/// Whether the usual characters stop and start the output.
fn usual_flow(termios: &Termios) -> bool {
    termios.input(IXON) && termios.is(VSTOP, 0o23) && termios.is(VSTART, 0o21)
}

impl super::State {
    /// Changes the settings of one end of a pair. Characters always have eight bits.
    pub(super) fn set_pty_termios(&mut self, mut termios: Termios) {
        termios.cflag = termios.cflag & !(CSIZE | PARENB) | CS8 | CREAD;
        let old = *self.discipline.termios();
        if usual_flow(&old) != usual_flow(&termios) {
            let now = if usual_flow(&termios) {
                TIOCPKT_DOSTOP
            } else {
                TIOCPKT_NOSTOP
            };
            self.pty.report(TIOCPKT_DOSTOP | TIOCPKT_NOSTOP, now);
        }
        if (old.lflag | termios.lflag) & EXTPROC != 0 {
            self.pty.report(0, TIOCPKT_IOCTL);
        }
        self.discipline.set_termios(termios);
    }

    /// Stops or starts the output, and notifies the master if that is a change.
    pub(super) fn set_stopped(&mut self, stopped: bool) {
        if self.discipline.stopped() != stopped {
            self.discipline.set_stopped(stopped);
            self.report_flow();
        }
    }

    /// Reports to the master whether the output is stopped.
    pub(super) fn report_flow(&mut self) {
        let now = if self.discipline.stopped() {
            TIOCPKT_STOP
        } else {
            TIOCPKT_START
        };
        self.pty.report(TIOCPKT_STOP | TIOCPKT_START, now);
    }
}

/// Creates a pair in the file system that belongs to `path`, and opens its master.
pub fn open_master(path: &Path) -> Result<Arc<dyn FileOps>> {
    let (_, instance) = root_for(path)?;
    let options = instance.get();
    let index = instance.reserve(options.max)?;
    let made = make(&instance, index, &options);
    let tty = made.inspect_err(|_| _ = PAIRS.lock().remove(&(instance.device, index)))?;
    let changed = tty.master_source();
    let master = try_arc(Master {
        tty,
        instance,
        changed,
    })?;
    // From now on others can find it.
    let place = (master.instance.device, index);
    PAIRS.lock().insert(place, Arc::downgrade(&master.tty));
    Ok(master)
}

/// Creates the terminal of a pair.
fn make(instance: &Instance, index: u32, options: &Options) -> Result<Arc<Tty>> {
    let (uid, gid) = options.owner();
    let tty = Tty::new((MAJOR, index), Line::Master)?;
    let mut state = tty.state.lock();
    let mut termios = *state.discipline.termios();
    // There is no line to hang up.
    termios.cflag &= !HUPCL;
    state.discipline.set_termios(termios);
    state.pty = State {
        master: Some(WaitSource::new()?),
        locked: true,
        attr: Some(SimpleAttr::new(Attr {
            device: instance.device,
            inode: u64::from(index) + 3,
            mode: S_IFCHR | options.mode,
            uid,
            gid,
            rdev: device::number(MAJOR, index),
            ..Attr::default()
        })),
        ..State::default()
    };
    drop(state);
    Ok(tty)
}

impl super::State {
    /// Takes out the bytes that the master reads next; returns their number. In packet mode they
    /// are the status, or a zero byte and output.
    fn take(&mut self, to: &mut [u8]) -> usize {
        let Some(first) = to.first_mut() else {
            return 0;
        };
        let head = usize::from(self.pty.packets);
        if self.pty.has_report() {
            *first = core::mem::take(&mut self.pty.status) as u8;
            return 1;
        }
        if self.output.is_empty() {
            return 0;
        }
        *first = TIOCPKT_DATA as u8;
        let count = self.output.len().min(to.len() - head);
        for (place, byte) in to[head..].iter_mut().zip(self.output.drain(..count)) {
            *place = byte;
        }
        head + count
    }
}

/// An open master.
struct Master {
    tty: Arc<Tty>,
    instance: Arc<Instance>,
    changed: Arc<WaitSource>,
}

impl Master {
    fn index(&self) -> u32 {
        self.tty.device.1
    }

    fn has_room(&self) -> bool {
        self.tty.state.lock().discipline.room() > 0
    }

    /// Whether a read does not block: there is output, or there will never be any.
    fn can_read(&self) -> bool {
        let state = self.tty.state.lock();
        !state.output.is_empty() || state.pty.abandoned || state.pty.has_report()
    }

    /// TIOCGPTPEER: opens the slave in the file system through which the master was opened.
    fn open_peer(&self, master: &File, flags: u32) -> Result<usize> {
        let flags = OpenFlags(flags & (O_ACCMODE | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
        // Walk up while the path is the root of a bind mount of a single file (devpts_mntget).
        let mut path = master.path().clone();
        while let Some(covered) = path.covered() {
            path = covered;
        }
        let (root, instance) = root_for(&path)?;
        if !Arc::ptr_eq(&instance, &self.instance) {
            return Err(Errno::ENODEV);
        }
        let name = try_format(format_args!("{}", self.index()))?;
        let slave = root.inode().lookup(&root, name.as_bytes())?;
        let file = File::open(root.with(slave), flags)?;
        Ok(current().files().add(file, flags.has(O_CLOEXEC))? as usize)
    }
}

impl FileOps for Master {
    fn has_async(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        loop {
            let mut chunk = [0; 1024];
            let room = to.left().min(chunk.len());
            let count = {
                let mut state = self.tty.state.lock();
                let count = state.take(&mut chunk[..room]);
                if count == 0 && state.pty.abandoned && room > 0 {
                    return Err(Errno::EIO);
                }
                count
            };
            if count > 0 || to.left() == 0 {
                self.tty.writable.notify();
                return to.put(&chunk[..count]);
            }
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.changed.wait(|| self.can_read())?;
        }
    }

    fn write(&self, file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        let mut total = 0;
        while from.left() > 0 {
            if !self.has_room() {
                let nonblocking = file.flags().nonblocking();
                let waited = if nonblocking {
                    Err(Errno::EAGAIN)
                } else {
                    self.changed.wait(|| self.has_room())
                };
                match waited {
                    Err(error) if total == 0 => return Err(error),
                    Err(_) => break,
                    Ok(()) => continue,
                }
            }
            // No more bytes than fit: bytes that were taken cannot be given back.
            let mut chunk = [0; 256];
            let room = self
                .tty
                .state
                .lock()
                .discipline
                .room()
                .clamp(1, chunk.len());
            match from.take(&mut chunk[..room]) {
                Ok(count) => total += self.tty.receive(&chunk[..count]),
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
            // Bytes that edit an empty line fill nothing, so the loop may never wait.
            if cond_resched_interruptible().is_err() && total > 0 {
                break;
            }
        }
        Ok(total)
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.changed);
        }
        let state = self.tty.state.lock();
        let mut events = Events::empty();
        let report = state.pty.has_report();
        events.set(Events::IN, !state.output.is_empty() || report);
        events.set(Events::PRIORITY, report);
        events.set(Events::OUT, state.discipline.room() > 0);
        events.set(Events::HANG_UP, state.pty.abandoned);
        events
    }

    fn ioctl(&self, file: &File, request: u32, argument: usize) -> Result<usize> {
        let number = UserPtr::<i32>::new(argument);
        match request {
            TIOCGPTN => number.write(&(self.index() as i32))?,
            TIOCSPTLCK => self.tty.state.lock().pty.locked = number.read()? != 0,
            TIOCGPTLCK => {
                let locked = self.tty.state.lock().pty.locked;
                number.write(&locked.into())?;
            }
            TIOCPKT => {
                let on = number.read()? != 0;
                self.tty.state.lock().pty.set_packets(on);
            }
            TIOCGPKT => {
                let packets = self.tty.state.lock().pty.packets;
                number.write(&packets.into())?;
            }
            TIOCGPTPEER => return self.open_peer(file, argument as u32),
            FIONREAD => {
                let waiting = self.tty.state.lock().output.len();
                number.write(&(waiting as i32))?;
            }
            TIOCGPGRP => number.write(&self.tty.foreground())?,
            TIOCGSID => number.write(&self.tty.session()?)?,
            TIOCSIG => self.tty.signal(argument)?,
            _ => return self.tty.ioctl(file, request, argument),
        }
        Ok(0)
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        PAIRS.lock().remove(&(self.instance.device, self.index()));
        self.tty.hang_up();
    }
}

/// A slave's inode in devpts.
struct Slave(Arc<Tty>);

impl Inode for Slave {
    fn kind(&self) -> Kind {
        Kind::Character
    }

    fn attr(&self) -> Attr {
        let state = self.0.state.lock();
        state
            .pty
            .attr
            .as_ref()
            .map_or_else(Attr::default, SimpleAttr::get)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        if let Some(attr) = &self.0.state.lock().pty.attr {
            attr.set(change);
        }
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        open_tty(self.0.clone(), flags, true)
    }
}

/// The master's inode in devpts.
struct Ptmx(Arc<Instance>);

impl Inode for Ptmx {
    fn kind(&self) -> Kind {
        Kind::Character
    }

    fn attr(&self) -> Attr {
        let rdev = device::number(5, 2);
        Attr {
            inode: 2,
            mode: S_IFCHR | self.0.get().ptmxmode,
            links: 1,
            rdev,
            ..Attr::default()
        }
    }

    fn open(self: Arc<Self>, here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        open_master(here)
    }
}

/// The root of devpts.
struct Root {
    attr: SimpleAttr,
    instance: Arc<Instance>,
}

/// The file system of the slaves.
pub fn devpts(instance: Arc<Instance>) -> Result<Arc<Dentry>> {
    let root = try_arc(Root {
        attr: SimpleAttr::new(Attr {
            device: instance.device,
            inode: 1,
            mode: S_IFDIR | 0o755,
            ..Attr::default()
        }),
        instance,
    })?;
    Dentry::named(root, None, b"")
}

impl Inode for Root {
    fn kind(&self) -> Kind {
        Kind::Directory
    }

    fn attr(&self) -> Attr {
        Attr {
            links: 2,
            ..self.attr.get()
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.attr.set(change);
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(self)
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        if name == b"ptmx" {
            return Dentry::named(
                try_arc(Ptmx(self.instance.clone()))?,
                Some(here.clone()),
                name,
            );
        }
        let index = core::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse().ok());
        let tty = index.and_then(|index| self.instance.find(index));
        let tty = tty.ok_or(Errno::ENOENT)?;
        Dentry::named(try_arc(Slave(tty))?, Some(here.clone()), name)
    }
}

impl FileOps for Root {
    fn read_dir(
        &self,
        _file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let fixed: [(&[u8], Kind); 3] = [
            (b".", Kind::Directory),
            (b"..", Kind::Directory),
            (b"ptmx", Kind::Character),
        ];
        for (at, (name, kind)) in fixed.into_iter().enumerate().skip(position as usize) {
            if !emit(Record {
                inode: 1,
                kind,
                name,
                next: at as u64 + 1,
            }) {
                return Ok(());
            }
        }
        let mut index = position.saturating_sub(3) as u32;
        loop {
            let Some(found) = self.instance.next(index) else {
                return Ok(());
            };
            let name = try_format(format_args!("{found}"))?;
            let inode = u64::from(found) + 3;
            if !emit(Record {
                inode,
                kind: Kind::Character,
                name: name.as_bytes(),
                next: inode + 1,
            }) {
                return Ok(());
            }
            index = found + 1;
        }
    }
}
