//! The bitmap of new mappings, under every interleaving with `RUSTFLAGS="--cfg loom"`, and once on
//! real threads without.

use fence::{Unseen, words};

#[cfg(loom)]
use loom::{
    model,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering::*},
    thread,
};
#[cfg(not(loom))]
use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering::*},
    thread,
};

#[cfg(not(loom))]
fn model(run: impl Fn()) {
    run();
}

/// The kernel's half of an address space: two entries, a bitmap, and a word by which an address is
/// passed on.
struct Kernel {
    entries: [AtomicUsize; 2],
    unseen: Unseen<1>,
    told: AtomicUsize,
}

impl Kernel {
    fn new() -> Arc<Kernel> {
        let entries = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Kernel {
            entries,
            unseen: Unseen::new(),
            told: AtomicUsize::new(0),
        })
    }

    fn map(&self, entry: usize) {
        self.entries[entry].store(1, Relaxed);
        self.unseen.mark(2);
    }

    /// Both entries as a fence and the walk after it see them.
    fn fence(&self) -> [usize; 2] {
        self.entries.each_ref().map(|entry| entry.load(Relaxed))
    }
}

/// No lost clear: once all is quiet, a CPU that has seen less than all still has its bit, and its
/// next trap sees all.
#[test]
fn a_trap_while_others_map_loses_no_mapping() {
    model(|| {
        let kernel = Kernel::new();
        let mappers = [0, 1].map(|entry| {
            let kernel = kernel.clone();
            thread::spawn(move || kernel.map(entry))
        });
        let mut seen = [0, 0];
        if kernel.unseen.take(0) {
            seen = kernel.fence();
        }
        mappers
            .into_iter()
            .for_each(|mapper| mapper.join().unwrap());
        if kernel.unseen.take(0) {
            seen = kernel.fence();
        }
        assert_eq!(seen, [1, 1]);
    });
}

/// No clear of another's bit: two CPUs trap at once while a third maps.
#[test]
fn cpus_clear_their_own_bits_only() {
    model(|| {
        let kernel = Kernel::new();
        kernel.map(0);
        let other = {
            let kernel = kernel.clone();
            thread::spawn(move || (kernel.unseen.take(1), kernel.unseen.take(1)))
        };
        assert!(kernel.unseen.take(0));
        assert!(!kernel.unseen.take(0));
        assert_eq!(other.join().unwrap(), (true, false));
        kernel.map(1);
        assert!(kernel.unseen.take(0) && kernel.unseen.take(1));
    });
}

/// A CPU that learns of a mapping finds its bit set, or has fenced since the mapping was made.
#[test]
fn an_address_passed_on_is_covered() {
    model(|| {
        let kernel = Kernel::new();
        let mapper = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                kernel.map(0);
                kernel.told.store(1, Release);
            })
        };
        let early = kernel.unseen.take(0) && kernel.fence()[0] == 1;
        if kernel.told.load(Acquire) == 1 {
            assert!(early || kernel.unseen.take(0) && kernel.fence()[0] == 1);
        }
        mapper.join().unwrap();
    });
}

#[test]
fn only_cpus_present_are_marked_word_by_word() {
    model(|| {
        let unseen = Unseen::<3>::new();
        unseen.mark(70);
        let taken: Vec<_> = (0..192).filter(|cpu| unseen.take(*cpu)).collect();
        assert_eq!(taken, (0..70).collect::<Vec<_>>());
        unseen.mark(64);
        assert!(unseen.take(63) && !unseen.take(64));
        assert_eq!([1, 64, 65, 512].map(words), [1, 1, 2, 8]);
    });
}
