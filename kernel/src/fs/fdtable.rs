//! File descriptors.

use super::fd_bitmap::FdBitmap;
use super::file::File;
use super::file_lock;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most descriptors of a table, and what RLIMIT_NOFILE can be raised to (`nr_open`).
pub static MOST_FILES: AtomicUsize = AtomicUsize::new(1 << 20);

/// Descriptors that are closed before others may run.
const AT_ONCE: usize = 32;

/// Bytes that any open file holds, roughly.
const FILE: usize = 1024;

#[derive(Clone)]
struct Slot {
    file: Arc<File>,
    close_on_exec: bool,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Slot>>,
    used: FdBitmap,
    /// Threads that have the table.
    users: usize,
}

impl Slots {
    /// Finds the lowest free descriptor from `from` on, below `limit`, with room for it.
    fn find(&mut self, from: usize, limit: usize) -> Result<usize> {
        let fd = self.used.next_free(from);
        if fd >= limit {
            return Err(Errno::EMFILE);
        }
        self.reach(fd)?;
        Ok(fd)
    }

    /// How many slots there are up to the last descriptor in use.
    fn len(&self) -> usize {
        let last = self.slots.iter().rposition(Option::is_some);
        last.map_or(0, |last| last + 1)
    }

    fn reach(&mut self, fd: usize) -> Result<()> {
        if fd >= self.slots.len() {
            let most = i32::MAX as usize / size_of::<Option<Slot>>();
            if fd >= MOST_FILES.load(Relaxed).min(most) {
                return Err(Errno::EMFILE);
            }
            let more = fd + 1 - self.slots.len();
            self.slots.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
            self.used.reach(fd + 1)?;
            self.slots.resize(fd + 1, None);
        }
        Ok(())
    }

    fn put(&mut self, fd: usize, slot: Slot) -> Option<Slot> {
        self.used.set(fd);
        self.slots[fd].replace(slot)
    }

    fn take(&mut self, fd: usize) -> Result<Arc<File>> {
        let slot = self
            .slots
            .get_mut(fd)
            .and_then(Option::take)
            .ok_or(Errno::EBADF)?;
        self.used.clear(fd);
        Ok(slot.file)
    }
}

/// The descriptors of a process, or of several that share them.
pub struct FdTable(Mutex<Slots>);

impl FdTable {
    /// A copy, as fork makes it.
    pub fn fork(&self) -> Result<FdShare> {
        let (mut slots, mut used) = (Vec::new(), FdBitmap::default());
        loop {
            // Memory is asked for without the lock; the table may have grown meanwhile.
            let wanted = self.0.lock().len();
            slots.try_reserve_exact(wanted).map_err(|_| Errno::ENOMEM)?;
            used.reach(wanted)?;
            let table = self.0.lock();
            let len = table.len();
            if len <= wanted {
                slots.extend(table.slots[..len].iter().cloned());
                used.copy_from(&table.used);
                break;
            }
        }
        FdShare::with(Slots {
            slots,
            used,
            users: 1,
        })
    }

    /// The file of descriptor `fd`.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<Arc<File>> {
        match self.0.lock().slots.get(fd as usize) {
            Some(Some(slot)) => Ok(slot.file.clone()),
            _ => Err(Errno::EBADF),
        }
    }

    /// Bytes of kernel memory that the files hold, roughly. They are asked one by one: they may
    /// take locks of their own.
    pub fn held(&self) -> usize {
        let (count, room) = {
            let table = self.0.lock();
            (table.len(), table.slots.capacity())
        };
        let owner = core::ptr::from_ref(self) as usize;
        let of = |file: Arc<File>| FILE + file.ops().held() + file_lock::memory(&file, owner);
        let held = (0..count).map(|fd| {
            cond_resched();
            self.get(fd as i32).map_or(0, of)
        });
        room * size_of::<Option<Slot>>() + held.sum::<usize>()
    }

    /// Gives `file` the lowest free descriptor from `from` on, below `limit`.
    pub fn add_from(
        &self,
        from: usize,
        limit: usize,
        file: Arc<File>,
        close_on_exec: bool,
    ) -> Result<i32> {
        let mut table = self.0.lock();
        let fd = table.find(from, limit)?;
        table.put(
            fd,
            Slot {
                file,
                close_on_exec,
            },
        );
        Ok(fd as i32)
    }

    /// EMFILE when no descriptor is free.
    pub fn check_room(&self) -> Result<()> {
        let limit = crate::task::current().open_files_limit();
        self.0.lock().find(0, limit).map(|_| ())
    }

    /// Gives `file` the lowest free descriptor.
    pub fn add(&self, file: Arc<File>, close_on_exec: bool) -> Result<i32> {
        self.add_from(
            0,
            crate::task::current().open_files_limit(),
            file,
            close_on_exec,
        )
    }

    /// Gives two files their descriptors, or none.
    pub fn add_pair(&self, files: [Arc<File>; 2], close_on_exec: bool) -> Result<[i32; 2]> {
        let [first, second] = files;
        let a = self.add(first, close_on_exec)?;
        match self.add(second, close_on_exec) {
            Ok(b) => Ok([a, b]),
            Err(error) => {
                _ = self.close(a);
                Err(error)
            }
        }
    }

    /// Makes `file` descriptor `fd`; what `fd` was is closed.
    pub fn set(&self, fd: usize, file: Arc<File>, close_on_exec: bool) -> Result<()> {
        let old = {
            let mut table = self.0.lock();
            table.reach(fd)?;
            table.put(
                fd,
                Slot {
                    file,
                    close_on_exec,
                },
            )
        };
        if let Some(slot) = old {
            self.closed(&slot.file);
        }
        Ok(())
    }

    /// Closes a descriptor.
    pub fn close(&self, fd: i32) -> Result<()> {
        let file = self.0.lock().take(fd as usize)?;
        self.closed(&file);
        Ok(())
    }

    /// Whether exec closes the descriptor.
    pub fn close_on_exec(&self, fd: i32) -> Result<bool> {
        match self.0.lock().slots.get(fd as usize) {
            Some(Some(slot)) => Ok(slot.close_on_exec),
            _ => Err(Errno::EBADF),
        }
    }

    /// Says whether exec shall close the descriptor.
    pub fn set_close_on_exec(&self, fd: i32, value: bool) -> Result<()> {
        match self.0.lock().slots.get_mut(fd as usize) {
            Some(Some(slot)) => slot.close_on_exec = value,
            _ => return Err(Errno::EBADF),
        }
        Ok(())
    }

    /// Closes what exec closes.
    pub fn exec(&self) {
        self.close_matching(0, usize::MAX, |slot| slot.close_on_exec);
    }

    /// Closes every descriptor in `first..=last`.
    pub fn close_range(&self, first: usize, last: usize) {
        self.close_matching(first, last, |_| true);
    }

    /// Lets exec close every descriptor in `first..=last`.
    pub fn mark_range(&self, first: usize, last: usize) {
        let mut table = self.0.lock();
        let end = last.saturating_add(1).min(table.slots.len());
        for slot in table
            .slots
            .get_mut(first..end)
            .into_iter()
            .flatten()
            .flatten()
        {
            slot.close_on_exec = true;
        }
    }

    fn close_matching(&self, first: usize, last: usize, matches: impl Fn(&Slot) -> bool) {
        let mut fd = first;
        for count in 1_usize.. {
            let file = {
                let mut table = self.0.lock();
                let end = last.saturating_add(1).min(table.slots.len());
                let found = table.slots.get(fd..end).and_then(|slots| {
                    slots
                        .iter()
                        .position(|slot| slot.as_ref().is_some_and(&matches))
                });
                let Some(offset) = found else { return };
                fd += offset;
                table.take(fd)
            };
            // Closed without the lock: it may wait, or close further files.
            if let Ok(file) = file {
                self.closed(&file);
            }
            if count.is_multiple_of(AT_ONCE) {
                cond_resched();
            }
        }
    }

    /// A descriptor of `file` was closed: the process's record locks go, whatever other descriptors
    /// it has.
    fn closed(&self, file: &File) {
        file.ops().flush();
        file_lock::release_process(file, core::ptr::from_ref(self) as usize);
    }

    /// The lowest descriptor in use from `from` on.
    pub fn next(&self, from: usize) -> Option<usize> {
        let table = self.0.lock();
        let offset = table.slots.get(from..)?.iter().position(Option::is_some)?;
        Some(from + offset)
    }

    /// How many descriptors the table has room for, as Linux's grows: programs see it in what
    /// select leaves alone.
    pub fn size(&self) -> usize {
        const FIRST: usize = 64;
        const STEP: usize = 128;
        match self.0.lock().slots.len() {
            ..=FIRST => FIRST,
            len => STEP * len.div_ceil(STEP).next_power_of_two(),
        }
    }
}

/// A thread's share of a table, which other threads may have too. A reader that only looks at the
/// table has no share: it neither keeps files open nor makes the table shared.
pub struct FdShare(Arc<FdTable>);

impl FdShare {
    /// A table without descriptors.
    pub fn new() -> Result<Self> {
        Self::with(Slots {
            users: 1,
            ..Slots::default()
        })
    }

    fn with(slots: Slots) -> Result<Self> {
        Ok(FdShare(try_arc(FdTable(Mutex::new(slots)))?))
    }

    /// The table.
    #[inline]
    pub fn table(&self) -> &Arc<FdTable> {
        &self.0
    }

    /// The same for another thread (CLONE_FILES).
    pub fn share(&self) -> Self {
        self.0.0.lock().users += 1;
        FdShare(self.0.clone())
    }

    /// Whether several threads have it.
    pub fn is_shared(&self) -> bool {
        self.0.0.lock().users > 1
    }
}

impl Drop for FdShare {
    fn drop(&mut self) {
        let left = {
            let mut slots = self.0.0.lock();
            slots.users -= 1;
            slots.users
        };
        if left == 0 {
            self.0.close_range(0, usize::MAX);
        }
    }
}
