//! The end of spaces and of their mappings.

use alloc::sync::{Arc, Weak};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::super::frame::{self, FrameRef};
use super::super::mmu_notifier::MmuNotifier;
use super::super::space::SpaceUser;
use super::super::vma::{Flags, PageSource, Source};
use super::super::vmas::Removed;
use super::super::{AddressSpace, MapRequest, PAGE_SIZE, Place};
use super::{BASE, byte, map, take_all};
use crate::arch::user_end;
use crate::errno::Errno;
use crate::selftest;
use crate::sync::lockdep::NoSleep;
use crate::sync::might_sleep;

/// The address of the first test mapping.
const FIRST: usize = 0x1_0000;

/// A file that takes the lock of a space that maps it when it is dropped, and may sleep.
struct Last {
    of: Weak<AddressSpace>,
    page: FrameRef,
    left: Arc<AtomicUsize>,
}

impl Last {
    /// Maps such a file, to which nobody else has a reference; it is counted in `left`.
    fn map(space: &Arc<AddressSpace>, at: usize, left: &Arc<AtomicUsize>) -> Result<(), Errno> {
        let file = Last {
            of: Arc::downgrade(space),
            page: frame::alloc_zeroed().unwrap(),
            left: left.clone(),
        };
        left.fetch_add(1, Relaxed);
        let (mapping, offset) = (Arc::new(file), 0);
        let request = MapRequest {
            source: Source::File { mapping, offset },
            ..MapRequest::anonymous(Place::Fixed(at), PAGE_SIZE)
        };
        space.map(request, &mut Removed::new()).map(drop)
    }
}

impl PageSource for Last {
    fn page(&self, _index: usize, _write: bool) -> Result<FrameRef, Errno> {
        Ok(self.page.clone())
    }

    fn len_pages(&self) -> usize {
        1
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        might_sleep();
        self.of.upgrade().unwrap().set_stack_limit(0);
        self.left.fetch_sub(1, Relaxed);
    }
}

selftest! {
    fn who_shows_a_space_elsewhere_is_told_of_its_end() {
        struct Shown(AtomicBool);
        impl MmuNotifier for Shown {
            fn invalidate(&self, _range: Range<usize>) {}

            fn protect(&self, _range: Range<usize>) {}

            fn aliases(&self, _range: &Range<usize>, _most: usize) -> usize {
                0
            }

            fn end(&self) {
                might_sleep();
                self.0.store(true, Relaxed);
            }
        }
        let shown = Arc::new(Shown(AtomicBool::new(false)));
        let space = SpaceUser::new(user_end()).unwrap();
        let notifier: Weak<Shown> = Arc::downgrade(&shown);
        space.add_notifier(notifier).unwrap();
        assert!(!shown.0.load(Relaxed));
        drop(space);
        assert!(shown.0.load(Relaxed));
    }

    fn a_file_that_ends_with_its_last_area_finds_the_space_free() {
        let space = SpaceUser::new(user_end()).unwrap();
        let left = Arc::new(AtomicUsize::new(0));
        let page = |at| FIRST + at * PAGE_SIZE..FIRST + (at + 1) * PAGE_SIZE;
        // A single file, one that another mapping replaces, and several at once.
        (0..200).for_each(|at| Last::map(&space, page(at).start, &left).unwrap());
        space.unmap(page(0), &mut Removed::new()).unwrap();
        assert_eq!(left.load(Relaxed), 199);
        Last::map(&space, page(1).start, &left).unwrap();
        assert_eq!(left.load(Relaxed), 199);
        let all = page(0).start..page(200).start;
        let mut gone = Removed::new();
        {
            let _held = NoSleep::begin();
            space.unmap(all, &mut gone).unwrap();
        }
        assert_eq!(left.load(Relaxed), 199);
        drop(gone);
        assert_eq!(left.load(Relaxed), 0);
        // A file that is not mapped.
        let sealed = MapRequest {
            flags: Flags::empty().with(Flags::SEALED, true),
            ..MapRequest::anonymous(Place::Fixed(FIRST), PAGE_SIZE)
        };
        space.map(sealed, &mut Removed::new()).unwrap();
        assert_eq!(Last::map(&space, FIRST, &left), Err(Errno::EPERM));
        assert_eq!(left.load(Relaxed), 0);
    }

    fn a_space_ends_with_its_last_user_whoever_looks_at_it() {
        let space = SpaceUser::new(user_end()).unwrap();
        let (look, left) = (space.clone(), Arc::new(AtomicUsize::new(0)));
        Last::map(&space, FIRST, &left).unwrap();
        map(&space, BASE, 600, 3).unwrap();
        look.write(BASE + PAGE_SIZE, &[7]).unwrap();
        let second = space.share();
        drop(space);
        assert_eq!((left.load(Relaxed), byte(&look, BASE + PAGE_SIZE)), (1, Some(7)));
        drop(second);
        assert_eq!((left.load(Relaxed), byte(&look, BASE + PAGE_SIZE)), (0, None));
        assert_eq!(look.vmas().count(), 0);
        // The last reference may be dropped under a lock.
        let _held = NoSleep::begin();
        drop(look);
    }

}

selftest! {
    fn files_stay_mapped_that_there_is_no_memory_to_keep_until_the_space_is_free() {
        let space = SpaceUser::new(user_end()).unwrap();
        let left = Arc::new(AtomicUsize::new(0));
        let all = BASE..BASE + 200 * PAGE_SIZE;
        all.clone().step_by(PAGE_SIZE).for_each(|at| Last::map(&space, at, &left).unwrap());
        let taken = take_all();
        let refused = space.unmap(all.clone(), &mut Removed::new());
        drop(taken);
        assert_eq!((refused, left.load(Relaxed)), (Err(Errno::ENOMEM), 200));
        space.unmap(all, &mut Removed::new()).unwrap();
        assert_eq!(left.load(Relaxed), 0);
    }
}
