//! File descriptors.

use super::dnotify;
use super::fd_bitmap::FdBitmap;
use super::file::File;
use super::file_lock;
use super::weak_file::LateEnd;
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_box};
use crate::random;
use crate::sync::{Mutex, SleepMutex};
use crate::task::sched::{cond_resched, cond_resched_killable};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The maximum size of a table, and the highest value of RLIMIT_NOFILE (`nr_open`).
pub static MOST_FILES: AtomicUsize = AtomicUsize::new(1 << 20);

/// The number of descriptors that are closed, or visited, before others may run.
const AT_ONCE: usize = 32;
const LOOKS_AT_ONCE: usize = 2048;

/// The descriptors in a part of a large table. It grows part by part, so no allocation is too
/// large, and no copy takes long.
const PART: usize = 1 << 16;

/// The approximate memory of any open file in bytes.
const FILE: usize = 1024;

/// The number of files of a table whose memory is measured; the other files are assumed to be
/// alike.
const SAMPLE: usize = 256;

#[derive(Clone)]
struct Slot {
    file: Arc<File>,
    close_on_exec: bool,
}

#[derive(Default)]
struct Slots {
    /// The first part, as far as it was ever used.
    slots: Vec<Option<Slot>>,
    /// The other parts, at full size; empty if none of its descriptors was ever used.
    parts: Vec<Vec<Option<Slot>>>,
    /// Used descriptors, including [`Reserved`] ones.
    used: FdBitmap,
    reserved: usize,
    /// The number of threads that share the table.
    users: usize,
    /// A copy that fork is making, of the table as it was at the start.
    copying: Option<Box<Slots>>,
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

    fn reach(&mut self, fd: usize) -> Result<()> {
        if fd >= self.slots.len() && self.place(fd).is_none() {
            let most = i32::MAX as usize / size_of::<Option<Slot>>();
            if fd >= MOST_FILES.load(Relaxed).min(most) {
                return Err(Errno::EMFILE);
            }
            self.grow(fd)?;
        }
        Ok(())
    }

    /// Makes room for a descriptor.
    #[cold]
    fn grow(&mut self, fd: usize) -> Result<()> {
        let (slots, len) = match (fd / PART).checked_sub(1) {
            None => {
                self.used.reach(fd + 1)?;
                (&mut self.slots, fd + 1)
            }
            Some(part) => {
                // A part has room for all of its descriptors at once.
                self.used.reach((fd / PART + 1) * PART)?;
                let more = (part + 1).saturating_sub(self.parts.len());
                self.parts.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
                let len = self.parts.len() + more;
                self.parts.resize_with(len, Vec::new);
                (&mut self.parts[part], PART)
            }
        };
        let more = len.saturating_sub(slots.len());
        slots.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        slots.resize(slots.len() + more, None);
        Ok(())
    }

    /// The slot of a descriptor, if it is open.
    fn get(&self, fd: usize) -> Option<&Slot> {
        match self.slots.get(fd) {
            Some(slot) => slot.as_ref(),
            None => self.get_above(fd),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_above(&self, fd: usize) -> Option<&Slot> {
        let part = self.parts.get((fd / PART).checked_sub(1)?)?;
        part.get(fd % PART)?.as_ref()
    }

    #[inline]
    fn place(&mut self, fd: usize) -> Option<&mut Option<Slot>> {
        match (fd / PART).checked_sub(1) {
            None => self.slots.get_mut(fd),
            Some(part) => self.parts.get_mut(part)?.get_mut(fd % PART),
        }
    }

    /// Must be called before a descriptor changes: a copy in progress gets its old value.
    #[inline]
    fn will_change(&mut self, fd: usize) {
        if self.copying.is_some() {
            self.keep(fd);
        }
    }

    /// Gives the copy in progress the present value of a descriptor, unless it has it already.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, fd: usize) {
        let Some(mut copy) = self.copying.take() else {
            return;
        };
        copy.take_over(fd, self);
        self.copying = Some(copy);
    }

    /// Copies a descriptor, if it was open in `table` when this copy began and is not copied yet. A
    /// reserved one is free in the copy.
    fn take_over(&mut self, fd: usize, table: &Slots) {
        if self.used.has(fd)
            && let Some(place @ None) = self.place(fd)
        {
            *place = table.get(fd).cloned();
            if place.is_none() {
                self.used.clear(fd);
            }
        }
    }

    /// Whether there is room for the used descriptors of `table`, which are below `end`.
    fn has_room_for(&mut self, table: &Slots, end: usize) -> bool {
        let mut from = 0;
        while let Some(fd) = table.used.next_used(from) {
            if self.place(fd).is_none() {
                return false;
            }
            from = (fd / PART + 1) * PART;
        }
        table.used.end() <= end
    }

    /// Sets the slot of the descriptor `fd`, for which there is room; returns its old slot.
    fn put(&mut self, fd: usize, slot: Slot) -> Option<Slot> {
        self.will_change(fd);
        self.used.set(fd);
        self.place(fd)?.replace(slot)
    }

    fn is_reserved(&self, fd: usize) -> bool {
        self.reserved != 0 && self.used.has(fd) && self.get(fd).is_none()
    }

    /// Takes the slot of a descriptor, if it `matches`.
    #[inline]
    fn take_if(&mut self, fd: usize, matches: impl Fn(&Slot) -> bool) -> Option<Slot> {
        self.will_change(fd);
        let slot = self.place(fd)?.take_if(|slot| matches(slot))?;
        self.used.clear(fd);
        Some(slot)
    }

    /// The number of slots that there is memory for.
    fn room(&self) -> usize {
        let parts = self.parts.iter().map(Vec::capacity);
        self.slots.capacity() + parts.sum::<usize>()
    }
}

/// The descriptors of a process, or of several that share them.
pub struct FdTable(Mutex<Slots>, Fork);

/// Held while fork copies a large table.
struct Fork(SleepMutex<()>);

/// The file that a descriptor had before: closed when this is dropped.
pub struct Replaced<'a> {
    files: &'a FdTable,
    file: Option<Arc<File>>,
}

impl Drop for Replaced<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            self.files.closed(file);
        }
    }
}

impl FdTable {
    /// A copy for fork.
    pub fn fork(&self) -> Result<FdShare> {
        let (mut slots, mut used) = (Vec::new(), FdBitmap::default());
        loop {
            // Memory is allocated without the lock; the table may grow meanwhile.
            let wanted = self.0.lock().used.end();
            if wanted > LOOKS_AT_ONCE {
                return self.fork_large();
            }
            slots.try_reserve_exact(wanted).map_err(|_| Errno::ENOMEM)?;
            used.reach(wanted)?;
            let table = self.0.lock();
            let len = table.used.end();
            if len <= wanted {
                slots.extend(table.slots[..len].iter().cloned());
                used.copy_from(&table.used);
                if table.reserved != 0 {
                    let empty = |fd: &usize| slots[*fd].is_none();
                    (0..len).filter(empty).for_each(|fd| used.clear(fd));
                }
                break;
            }
        }
        FdShare::with(Slots {
            slots,
            used,
            users: 1,
            ..Slots::default()
        })
    }

    /// Copies a large table in parts. A thread that changes a slot meanwhile first saves its old
    /// value for the copy.
    #[cold]
    #[inline(never)]
    fn fork_large(&self) -> Result<FdShare> {
        let share = FdShare::new()?;
        let _alone = self.1.0.lock_killable()?;
        while !self.begin_copy()? {
            cond_resched_killable()?;
        }
        let mut from = 0;
        let copy = loop {
            if let Some(copy) = self.copy_some(&mut from) {
                break copy;
            }
            cond_resched();
        };
        *share.0.0.lock() = *copy;
        Ok(share)
    }

    /// Begins a copy of the present table; false if the table outgrew the room of the copy.
    fn begin_copy(&self) -> Result<bool> {
        let mut copy = try_box(Slots {
            users: 1,
            ..Slots::default()
        })?;
        let end = self.0.lock().used.end();
        copy.grow(end.saturating_sub(1))?;
        let mut from = 0;
        // Reserved ones too, since they may be open when the copy begins.
        let next = |from| self.0.lock().used.next_used(from);
        while let Some(fd) = next(from) {
            let last = (fd / PART * PART + PART - 1)
                .min(end.saturating_sub(1))
                .max(fd);
            copy.grow(last)?;
            from = last + 1;
            cond_resched_killable()?;
        }
        let mut table = self.0.lock();
        let fits = copy.has_room_for(&table, end);
        if fits {
            copy.used.copy_from(&table.used);
            table.copying = Some(copy);
        }
        Ok(fits)
    }

    /// Copies some descriptors from `from` on; returns the copy once it is complete.
    fn copy_some(&self, from: &mut usize) -> Option<Box<Slots>> {
        let mut table = self.0.lock();
        let mut copy = table.copying.take()?;
        for _ in 0..LOOKS_AT_ONCE {
            let Some(fd) = copy.used.next_used(*from) else {
                return Some(copy);
            };
            copy.take_over(fd, &table);
            *from = fd + 1;
        }
        table.copying = Some(copy);
        None
    }

    /// The file of descriptor `fd`.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<Arc<File>> {
        match self.0.lock().get(fd as usize) {
            Some(slot) => Ok(slot.file.clone()),
            None => Err(Errno::EBADF),
        }
    }

    /// The approximate kernel memory of the files in bytes. A large table is sampled at random, so
    /// that the out-of-memory killer does not visit each descriptor of each process. Files are
    /// asked one by one, since they may take locks of their own. A file that is closed meanwhile is
    /// freed later: the caller, which needs memory, may hold locks that this takes.
    pub fn held(&self) -> usize {
        let (room, end, open) = {
            let table = self.0.lock();
            (table.room(), table.used.end(), table.used.count())
        };
        let owner = core::ptr::from_ref(self) as usize;
        let mut late = LateEnd::new();
        let mut of = |file: Arc<File>| {
            let held = file.ops().held() + file_lock::memory(&file, owner);
            if late.drop_file(file) {
                late = LateEnd::new();
            }
            held
        };
        let step = if open > SAMPLE {
            end.div_ceil(SAMPLE)
        } else {
            1
        };
        let (mut from, mut asked, mut held) = (random::u64() as usize % step, 0, 0);
        while let Some(fd) = self.next(from) {
            cond_resched();
            held += self.get(fd as i32).map_or(0, &mut of);
            asked += 1;
            from += (fd - from) / step * step + step;
        }
        room * size_of::<Option<Slot>>() + open * FILE + held / asked.max(1) * open
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

    /// Reserves the lowest free descriptor for a file that is yet to be opened.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn reserve(self: &Arc<Self>) -> Result<Reserved> {
        let limit = crate::task::current().open_files_limit();
        let mut table = self.0.lock();
        let fd = table.find(0, limit)?;
        table.used.set(fd);
        table.reserved += 1;
        drop(table);
        Ok(Reserved(self.clone(), Some(fd)))
    }

    /// Reserves two descriptors.
    ///
    /// # Errors
    /// EMFILE, ENOMEM: none is reserved.
    pub fn reserve_pair(self: &Arc<Self>) -> Result<[Reserved; 2]> {
        Ok([self.reserve()?, self.reserve()?])
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

    /// Sets descriptor `fd` to `file`; the old file of `fd` is closed.
    ///
    /// # Errors
    /// EMFILE, ENOMEM; EBUSY: it is reserved.
    pub fn set(&self, fd: usize, file: Arc<File>, close_on_exec: bool) -> Result<()> {
        self.replace(fd, file, close_on_exec).map(drop)
    }

    /// Like [`set`](Self::set), but the old file is closed when the result is dropped, which may
    /// take long.
    ///
    /// # Errors
    /// Those of `set`.
    pub fn replace(&self, fd: usize, file: Arc<File>, close_on_exec: bool) -> Result<Replaced<'_>> {
        let old = {
            let mut table = self.0.lock();
            table.reach(fd)?;
            if table.is_reserved(fd) {
                return Err(Errno::EBUSY);
            }
            table.put(
                fd,
                Slot {
                    file,
                    close_on_exec,
                },
            )
        };
        Ok(Replaced {
            files: self,
            file: old.map(|slot| slot.file),
        })
    }

    /// Closes a descriptor.
    pub fn close(&self, fd: i32) -> Result<()> {
        let slot = self.0.lock().take_if(fd as usize, |_| true);
        self.closed(&slot.ok_or(Errno::EBADF)?.file);
        Ok(())
    }

    /// Whether exec closes the descriptor.
    pub fn close_on_exec(&self, fd: i32) -> Result<bool> {
        match self.0.lock().get(fd as usize) {
            Some(slot) => Ok(slot.close_on_exec),
            None => Err(Errno::EBADF),
        }
    }

    /// Sets whether exec closes the descriptor.
    pub fn set_close_on_exec(&self, fd: i32, value: bool) -> Result<()> {
        let mut table = self.0.lock();
        table.will_change(fd as usize);
        match table.place(fd as usize) {
            Some(Some(slot)) => slot.close_on_exec = value,
            _ => return Err(Errno::EBADF),
        }
        Ok(())
    }

    /// Closes the close-on-exec descriptors.
    pub fn exec(&self) {
        self.close_matching(0, usize::MAX, |slot| slot.close_on_exec);
    }

    /// Closes every descriptor in `first..=last`.
    pub fn close_range(&self, first: usize, last: usize) {
        self.close_matching(first, last, |_| true);
    }

    /// Marks every descriptor in `first..=last` to be closed on exec.
    pub fn mark_range(&self, first: usize, last: usize) {
        let mut from = first;
        loop {
            let mut table = self.0.lock();
            for _ in 0..LOOKS_AT_ONCE {
                let next = table.used.next_used(from).filter(|&fd| fd <= last);
                let Some(fd) = next else { return };
                table.will_change(fd);
                if let Some(Some(slot)) = table.place(fd) {
                    slot.close_on_exec = true;
                }
                from = fd + 1;
            }
            drop(table);
            cond_resched();
        }
    }

    fn close_matching(&self, first: usize, last: usize, matches: impl Fn(&Slot) -> bool) {
        let mut from = first;
        for count in 1_usize.. {
            let file = {
                let mut table = self.0.lock();
                let end = from.saturating_add(LOOKS_AT_ONCE);
                loop {
                    let Some(fd) = table.used.next_used(from).filter(|&fd| fd <= last) else {
                        return;
                    };
                    from = fd + 1;
                    if let Some(slot) = table.take_if(fd, &matches) {
                        break Some(slot.file);
                    }
                    if from > end {
                        break None;
                    }
                }
            };
            // Closed without the lock, since closing may sleep, or close further files.
            if let Some(file) = file {
                self.closed(&file);
            }
            if count.is_multiple_of(AT_ONCE) {
                cond_resched();
            }
        }
    }

    /// A descriptor of `file` was closed: releases the process's record locks and its watch of the
    /// directory, even if it has other descriptors of the file.
    fn closed(&self, file: &File) {
        file.ops().flush();
        let descriptors = core::ptr::from_ref(self).addr();
        dnotify::flush(file, descriptors);
        file_lock::release_process(file, descriptors);
    }

    /// The lowest open descriptor from `from` on.
    pub fn next(&self, from: usize) -> Option<usize> {
        let table = self.0.lock();
        let used = |fd: &usize| table.used.next_used(fd + 1);
        let all = core::iter::successors(table.used.next_used(from), used);
        all.into_iter().find(|&fd| !table.is_reserved(fd))
    }

    /// The size of the table, which grows as on Linux: programs can see it by the bits that select
    /// leaves unchanged.
    pub fn size(&self) -> usize {
        const FIRST: usize = 64;
        const STEP: usize = 128;
        match self.0.lock().used.room() {
            ..=FIRST => FIRST,
            room => STEP * room.div_ceil(STEP).next_power_of_two(),
        }
    }
}

/// A reserved descriptor, which is neither open nor available to others until it gets its file. It
/// is freed if dropped before (Linux's get_unused_fd_flags, fd_install and put_unused_fd).
pub struct Reserved(Arc<FdTable>, Option<usize>);

impl Reserved {
    /// Its number.
    pub fn number(&self) -> i32 {
        self.1.map_or(-1, |fd| fd as i32)
    }

    /// Installs its file; returns its number.
    pub fn install(mut self, file: Arc<File>, close_on_exec: bool) -> i32 {
        let number = self.number();
        if let Some(fd) = self.1.take() {
            let slot = Slot {
                file,
                close_on_exec,
            };
            let mut table = self.0.0.lock();
            table.reserved -= 1;
            table.put(fd, slot);
        }
        number
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(fd) = self.1 {
            let mut table = self.0.0.lock();
            table.will_change(fd);
            table.reserved -= 1;
            table.used.clear(fd);
        }
    }
}

/// A thread's share of a table, which other threads may share. A reader that only examines the
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

    #[inline(always)]
    fn with(slots: Slots) -> Result<Self> {
        let fork = Fork(SleepMutex::new(()));
        Ok(FdShare(try_arc(FdTable(Mutex::new(slots), fork))?))
    }

    /// The table.
    #[inline]
    pub fn table(&self) -> &Arc<FdTable> {
        &self.0
    }

    /// Shares the table with another thread (CLONE_FILES).
    pub fn share(&self) -> Self {
        self.0.0.lock().users += 1;
        FdShare(self.0.clone())
    }

    /// Whether several threads share the table.
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

#[cfg(feature = "selftest")]
crate::selftest! {
    fn few_files_of_a_large_table_are_asked_what_they_hold() {
        use super::file::{FileOps, OpenFlags};

        struct Asked(AtomicUsize);
        impl FileOps for Asked {
            fn held(&self) -> usize {
                self.0.fetch_add(1, Relaxed);
                1 << 20
            }
        }
        let ops = try_arc(Asked(AtomicUsize::new(0))).unwrap();
        let files = FdShare::new().unwrap();
        let (slots, mut open) = (size_of::<Option<Slot>>(), 0);
        // Few, all; then many, without gaps and with them.
        for fds in [0..40, 40..4000, 70_000..70_040] {
            for fd in fds {
                let file = super::anonymous::file("test", ops.clone(), OpenFlags(0)).unwrap();
                assert_eq!(files.table().add_from(fd, 100_000, file, false), Ok(fd as i32));
                open += 1;
            }
            ops.0.store(0, Relaxed);
            let held = files.table().held() - files.table().0.lock().room() * slots;
            assert_eq!(held, open * (FILE + (1 << 20)));
            let asked = ops.0.load(Relaxed);
            assert!(asked == open || asked <= SAMPLE && open > SAMPLE);
            assert!(asked > 0);
        }
    }

    fn a_file_that_is_asked_while_it_is_closed_ends_elsewhere() {
        use super::file::{FileOps, OpenFlags};
        use crate::task::{current, sched};

        static ENDED_BY: AtomicUsize = AtomicUsize::new(0);
        struct Closed(FdShare);
        impl FileOps for Closed {
            fn held(&self) -> usize {
                self.0.table().close(0).unwrap();
                1
            }
        }
        impl Drop for Closed {
            fn drop(&mut self) {
                ENDED_BY.store(core::ptr::from_ref(&*current()).addr(), Relaxed);
            }
        }
        let files = FdShare::new().unwrap();
        let ops = try_arc(Closed(files.share())).unwrap();
        let file = super::anonymous::file("test", ops, OpenFlags(0)).unwrap();
        files.table().add_from(0, 1, file, false).unwrap();
        files.table().held();
        while ENDED_BY.load(Relaxed) == 0 {
            sched::yield_now();
        }
        assert_ne!(ENDED_BY.load(Relaxed), core::ptr::from_ref(&*current()).addr());
    }

    fn a_copy_has_room_for_what_is_reserved() {
        let share = FdShare::new().unwrap();
        let table = share.table();
        let reserved = table.reserve().unwrap();
        let file = super::eventfd::new(0, 0).unwrap();
        table.set(PART, file, false).unwrap();
        assert!(table.begin_copy().unwrap());
        drop(reserved);
    }

    fn a_copy_in_parts_is_that_of_one_moment() {
        const ALL: usize = 3 * LOOKS_AT_ONCE;
        let [file, other] = [0, 1].map(|count| super::eventfd::new(count, 0).unwrap());
        let share = FdShare::new().unwrap();
        let table = share.table();
        for _ in 0..ALL {
            table.add_from(0, usize::MAX, file.clone(), false).unwrap();
        }
        assert!(table.begin_copy().unwrap());
        let mut from = 0;
        assert!(table.copy_some(&mut from).is_none());
        // Descriptors that were copied already, and some that were not.
        for fd in [1, from + 1] {
            table.close(fd as i32).unwrap();
            table.set(fd + 1, other.clone(), false).unwrap();
            table.set_close_on_exec(fd as i32 + 2, true).unwrap();
            table.mark_range(fd + 3, fd + 3);
            table.close_range(fd + 4, fd + 4);
        }
        // Opened again, changed twice, and one that was free.
        for fd in [from + 1, from + 2, ALL + 1] {
            table.set(fd, other.clone(), true).unwrap();
        }
        let copy = loop {
            if let Some(copy) = table.copy_some(&mut from) {
                break copy;
            }
        };
        assert_eq!((copy.used.end(), copy.used.next_free(0)), (ALL, ALL));
        for fd in 0..ALL {
            let slot = copy.get(fd).expect("it was in use");
            assert!(Arc::ptr_eq(&slot.file, &file) && !slot.close_on_exec, "descriptor {fd}");
        }
        assert!(table.get(ALL as i32 + 1).is_ok() && table.get(1).is_err());
    }
}
