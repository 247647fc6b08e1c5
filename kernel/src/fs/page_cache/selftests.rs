//! Tests of the page cache on top of a disk of zeroes.

use super::super::io::{Sink, Source};
use super::fill::MOST_AHEAD;
use super::write::STEP;
use super::{Ahead, Backing, Grabbed, Mapping, Stats, mappings, sync_all};
use crate::arch::irq;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, FrameRef};
use crate::selftest;
use crate::sync::Mutex;
use crate::task::timer::{Expire, Timer};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::*};

struct Zeroes;

impl Backing for Zeroes {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        pages.iter().for_each(|(_, page)| page.zero());
        Ok(())
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// The pages of a file that was freed.
struct Ended;

impl Backing for Ended {
    fn grab(&self) -> Option<Grabbed> {
        None
    }

    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        Zeroes.read_pages(pages)
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        panic!("its place may be another's")
    }

    fn flush(&self) -> Result<()> {
        panic!("its inode may be another's")
    }
}

/// A disk for which there is no memory to write pages.
struct Short(AtomicBool);

impl Backing for Short {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        Zeroes.read_pages(pages)
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        match self.0.load(Acquire) {
            true => Err(Errno::ENOMEM),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// Keeps byte 100 of what is written.
struct Byte(AtomicU8);

impl Backing for Byte {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        Zeroes.read_pages(pages)
    }

    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut byte = [0];
        pages[0].1.read(100, &mut byte);
        self.0.store(byte[0], Release);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// A disk of one page, whose first byte is written by another thread while it is first read.
struct Written {
    byte: AtomicU8,
    how: fn(&Mapping, &Written),
    mapping: Mutex<Weak<Mapping>>,
}

impl Written {
    /// The byte that a reader sees.
    fn read(how: fn(&Mapping, &Written)) -> u8 {
        let mapping = Mutex::new(Weak::new());
        let backing = Arc::new(Written {
            byte: AtomicU8::new(1),
            how,
            mapping,
        });
        let mapping = Mapping::new(backing.clone(), PAGE_SIZE as u64).unwrap();
        *backing.mapping.lock() = Arc::downgrade(&mapping);
        let mut byte = [0];
        mapping
            .read(&mut Sink::kernel(&mut byte), 0, &Ahead::none())
            .unwrap();
        byte[0]
    }
}

impl Backing for Written {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let byte = self.byte.load(Acquire);
        let mapping = core::mem::take(&mut *self.mapping.lock());
        if let Some(mapping) = mapping.upgrade() {
            (self.how)(&mapping, self);
        }
        pages
            .iter()
            .for_each(|(_, page)| page.fill(0..PAGE_SIZE, byte));
        Ok(())
    }

    fn write_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        let mut byte = [0];
        pages[0].1.read(0, &mut byte);
        self.byte.store(byte[0], Release);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// A disk that fails all writes; records what was reported to the file system.
struct Broken(AtomicU8);

impl Backing for Broken {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        Zeroes.read_pages(pages)
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        Err(Errno::EIO)
    }

    fn failed(&self, error: Errno) {
        self.0.store(error.0 as u8, Release);
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// Records the largest number of bytes for which space was requested at once.
struct Places(AtomicU64);

impl Backing for Places {
    fn read_pages(&self, pages: &[(usize, FrameRef)]) -> Result<()> {
        Zeroes.read_pages(pages)
    }

    fn write_pages(&self, _pages: &[(usize, FrameRef)]) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, start: u64, end: u64, _mapped: bool) -> Result<u64> {
        self.0.fetch_max(end - start, AcqRel);
        Ok(end)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

pub(super) fn new_mapping(pages: usize) -> Arc<Mapping> {
    Mapping::new(Arc::new(Zeroes), (pages * PAGE_SIZE) as u64).unwrap()
}

/// Records that an interrupt was taken.
struct Struck(AtomicBool);

impl Expire for Struck {
    fn expire(self: Arc<Self>) {
        self.0.store(true, Release);
    }
}

selftest! {
    fn others_have_their_turn_while_a_large_file_is_dropped() {
        const PAGES: usize = 2000;
        let before = Stats::now().cached;
        let mapping = new_mapping(PAGES);
        mapping.read_ahead(0, PAGES).unwrap();
        assert_eq!(Stats::now().cached, before + MOST_AHEAD);
        for first in (0..PAGES).step_by(MOST_AHEAD) {
            mapping.read_ahead(first, MOST_AHEAD).unwrap();
        }
        assert_eq!(Stats::now().cached, before + PAGES);
        let struck = Arc::new(Struck(AtomicBool::new(false)));
        let timer = Timer::call(time::now_ticks(), struck.clone()).unwrap();
        while !irq::pending() {}
        drop(mapping);
        assert!(struck.0.load(Acquire), "no interrupt was taken");
        assert_eq!(Stats::now().cached, before);
        drop(timer);
    }

    fn pages_of_a_file_that_has_ended_are_not_written() {
        let mapping = Mapping::new(Arc::new(Ended), PAGE_SIZE as u64).unwrap();
        mapping.read_ahead(0, 1).unwrap();
        mapping.pages.lock().set_dirty(0).unwrap();
        sync_all();
        assert!(mapping.is_dirty());
    }

    fn who_syncs_is_told_that_pages_stay_changed_without_memory() {
        let backing = Arc::new(Short(AtomicBool::new(true)));
        let mapping = Mapping::new(backing.clone(), PAGE_SIZE as u64).unwrap();
        mapping.read_ahead(0, 1).unwrap();
        mapping.pages.lock().set_dirty(0).unwrap();
        assert_eq!(mapping.sync(), Err(Errno::ENOMEM));
        assert!(mapping.is_dirty());
        backing.0.store(false, Release);
        assert_eq!(mapping.sync(), Ok(()));
        assert!(!mapping.is_dirty());
    }

    fn what_is_stored_behind_the_end_is_no_part_of_the_file() {
        let backing = Arc::new(Byte(AtomicU8::new(0)));
        let mapping = Mapping::new(backing.clone(), 50).unwrap();
        mapping.read_ahead(0, 1).unwrap();
        let page = mapping.page(0).unwrap();
        let write = |byte| {
            page.fill(100..101, byte);
            mapping.pages.lock().set_dirty(0).unwrap();
            mapping.sync().unwrap();
            let mut now = [0];
            page.read(100, &mut now);
            (now[0], backing.0.load(Acquire))
        };
        assert_eq!(write(7), (7, 0));
        mapping.lengthen(60, || Ok(())).unwrap();
        let mut now = [1];
        page.read(100, &mut now);
        assert_eq!(now, [0]);
        mapping.lengthen(200, || Ok(())).unwrap();
        assert_eq!(write(7), (7, 7));
    }

    fn a_truncation_that_does_not_begin_changes_nothing() {
        let mapping = new_mapping(2);
        mapping.read_ahead(0, 2).unwrap();
        let last = mapping.page(1).unwrap();
        let first = mapping.page(0).unwrap();
        first.fill(100..101, 7);
        mapping.pages.lock().set_dirty(1).unwrap();
        let begun = mapping.cut(50, || Err(Errno::ENOMEM), || panic!("it has not begun"));
        assert_eq!(begun, Err(Errno::ENOMEM));
        let byte = || {
            let mut byte = [0];
            first.read(100, &mut byte);
            byte[0]
        };
        assert_eq!((mapping.size(), byte()), (2 * PAGE_SIZE as u64, 7));
        assert!(mapping.is_dirty() && mapping.page(1).is_some());
        drop(last);
        assert_eq!(mapping.cut(50, || Ok(()), || Err(Errno::EIO)), Err(Errno::EIO));
        assert_eq!((mapping.size(), byte()), (50, 0));
        assert!(mapping.page(1).is_none());
    }

    fn a_page_stays_old_while_others_are_written() {
        let mapping = new_mapping(8);
        mapping.read_ahead(0, 8).unwrap();
        {
            let mut pages = mapping.pages.lock();
            pages.set_dirty(0).unwrap();
            pages.set_dirty(5).unwrap();
            pages.since = 1;
        }
        mapping.write_back(0..1).unwrap();
        assert_eq!(mapping.dirty_since(), Some(1));
        mapping.write_back(0..usize::MAX).unwrap();
        assert_eq!(mapping.dirty_since(), None);
    }

    fn the_file_system_is_told_what_a_file_could_not_write() {
        let backing = Arc::new(Broken(AtomicU8::new(0)));
        let mapping = Mapping::new(backing.clone(), PAGE_SIZE as u64).unwrap();
        mapping.read_ahead(0, 1).unwrap();
        mapping.pages.lock().set_dirty(0).unwrap();
        mapping.write_back(0..1).unwrap();
        assert_eq!(u16::from(backing.0.load(Acquire)), Errno::EIO.0);
    }

    fn a_long_write_finds_its_place_in_steps() {
        let backing = Arc::new(Places(AtomicU64::new(0)));
        let mapping = Mapping::new(backing.clone(), 0).unwrap();
        let bytes = alloc::vec![5; STEP + STEP / 2];
        let done = mapping.write_growing(&mut Source::kernel(&bytes), Some(7), |_, _| Ok(()));
        assert_eq!(done, Ok((bytes.len(), 7 + bytes.len() as u64)));
        assert_eq!(mapping.size(), 7 + bytes.len() as u64);
        assert_eq!(backing.0.load(Acquire), STEP as u64);
        mapping.write_back(0..usize::MAX).unwrap();
    }

    fn what_was_read_before_it_was_written_is_not_kept() {
        let read = Written::read(|mapping, _| {
            let fresh = frame::alloc().unwrap();
            fresh.fill(0..PAGE_SIZE, 2);
            drop(mapping.insert(0, fresh).unwrap());
            mapping.pages.lock().set_dirty(0).unwrap();
            mapping.write_back(0..1).unwrap();
            mapping.forget(0..1);
        });
        assert_eq!(read, 2);
        let read = Written::read(|mapping, disk| {
            mapping.invalidate(0..1).unwrap();
            disk.byte.store(3, Release);
            mapping.invalidate(0..1).unwrap();
        });
        assert_eq!(read, 3);
    }

    fn all_mappings_are_visited_though_one_ends_meanwhile() {
        let mut first = Some(new_mapping(1));
        let second = new_mapping(1);
        let mut visited = 0;
        mappings::each(|mapping| {
            if first.as_ref().is_some_and(|first| Arc::ptr_eq(first, mapping)) {
                first = None;
            }
            visited += usize::from(Arc::ptr_eq(&second, mapping));
        });
        assert!(first.is_none());
        assert_eq!(visited, 1);
    }
}
