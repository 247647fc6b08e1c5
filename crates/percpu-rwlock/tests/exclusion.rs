//! No reader runs while a writer writes, and readers see what it wrote, under every interleaving
//! with `RUSTFLAGS="--cfg loom"`, and in a history without.

use percpu_rwlock::{Handshake, Slot};

fn handshake(cpus: usize) -> Handshake<usize, 2> {
    Handshake::new((0..cpus).map(Slot::new).collect())
}

#[cfg(loom)]
mod races {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Mutex;
    use loom::thread;
    use std::sync::Arc;

    const CPUS: usize = 3;

    /// A lock, and the value that it guards: loom reports unordered accesses of it.
    struct Lock {
        handshake: Handshake<usize, 2>,
        writer: Mutex<usize>,
        value: UnsafeCell<()>,
    }

    impl Lock {
        fn read(&self, cpu: usize) {
            self.use_by(self.handshake.read(cpu, || ()), cpu);
        }

        fn try_read(&self, cpu: usize) {
            if let Some(slot) = self.handshake.try_read(cpu) {
                self.use_by(slot, cpu);
            }
        }

        fn use_by(&self, slot: &Slot<usize>, cpu: usize) {
            assert_eq!(slot.data, cpu);
            self.value.with(|_| ());
            slot.release();
        }

        fn write(&self, cpu: usize) {
            let mut writes = self.writer.lock().unwrap();
            self.handshake.exclude(cpu);
            self.value.with_mut(|_| ());
            *writes += 1;
            self.handshake.admit();
        }
    }

    /// Runs a CPU each beside the others.
    fn beside<const N: usize>(cpus: [fn(&Lock, usize); N]) {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(move || {
            let lock = Arc::new(Lock {
                handshake: handshake(CPUS),
                writer: Mutex::new(0),
                value: UnsafeCell::new(()),
            });
            let spawn = |cpu: usize| {
                let lock = lock.clone();
                thread::spawn(move || cpus[cpu](&lock, cpu))
            };
            let others: Vec<_> = (1..N).map(spawn).collect();
            cpus[0](&lock, 0);
            others.into_iter().for_each(|cpu| cpu.join().unwrap());
            // The last thread left the lock free.
            lock.write(0);
        });
    }

    #[test]
    fn a_reader_beside_a_writer() {
        beside([Lock::read, Lock::write]);
    }

    #[test]
    fn a_reader_that_comes_back() {
        beside([
            |lock, cpu| {
                lock.read(cpu);
                lock.read(cpu);
            },
            Lock::write,
        ]);
    }

    /// Two that spin beside a third have no end in the model.
    #[test]
    fn readers_on_two_cpus() {
        beside([Lock::try_read, Lock::try_read, Lock::write]);
    }

    #[test]
    fn writers_on_two_cpus() {
        beside([Lock::read, Lock::write, Lock::write]);
    }

    /// A CPU that read before changes the value while another comes for the first time.
    #[test]
    fn a_writer_that_read_before() {
        beside([
            |lock, cpu| {
                lock.read(cpu);
                lock.write(cpu);
            },
            Lock::read,
        ]);
    }
}

/// A writer waits for readers of all words, and not for itself.
#[cfg(not(loom))]
#[test]
fn a_writer_waits_for_the_cpus_that_read() {
    let handshake = handshake(100);
    for cpu in [0, 63, 64, 99] {
        handshake.read(cpu, || ()).release();
        handshake.exclude(cpu);
        handshake.admit();
    }
    let slot = handshake.read(99, || ());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| handshake.exclude(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!writer.is_finished());
        slot.release();
    });
    handshake.admit();
    assert_eq!(handshake.slots().len(), 100);
}

/// A reader that waits is let in between two writes.
#[cfg(not(loom))]
#[test]
fn a_writer_gives_way_to_the_cpus_that_wait() {
    let handshake = handshake(2);
    assert!(handshake.give_way(1));
    handshake.exclude(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| handshake.read(1, || ()));
        while handshake.give_way(1) {
            std::thread::yield_now();
        }
        assert!(
            !handshake.give_way(1000),
            "the reader waits until it is let in"
        );
        handshake.admit();
        while !handshake.give_way(1000) {
            std::thread::yield_now();
        }
        assert!(handshake.is_held(), "the reader reads");
        reader.join().unwrap().release();
    });
}

/// A CPU that reads twice would let writers in when it releases its slot for the first time.
#[cfg(not(loom))]
#[test]
#[should_panic(expected = "a CPU reads twice")]
fn a_nested_read_is_refused() {
    let handshake = handshake(1);
    handshake.read(0, || ());
    handshake.try_read(0);
}

#[cfg(not(loom))]
#[test]
#[should_panic(expected = "a CPU writes while it reads")]
fn a_write_within_a_read_is_refused() {
    let handshake = handshake(2);
    handshake.read(1, || ());
    handshake.exclude(1);
}

#[cfg(not(loom))]
#[test]
fn it_is_held_while_one_reads_or_writes() {
    let handshake = handshake(2);
    assert!(!handshake.is_held());
    let slot = handshake.read(1, || ());
    assert!(handshake.is_held());
    slot.release();
    assert!(!handshake.is_held());
    handshake.exclude(0);
    assert!(handshake.is_held());
    handshake.admit();
    assert!(!handshake.is_held());
}
