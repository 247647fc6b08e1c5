//! Identifiers over rollovers: no CPU uses another space's translations or a freed frame, under
//! every interleaving with `RUSTFLAGS="--cfg loom"`, and in a history without.

use asid::{Allocator, ContextId, Hardware, Lock, Tables};

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(not(loom))]
use std::sync::Mutex;

const CPUS: usize = 2;
/// One space for each of the three identifiers that two bits leave, and one more.
const SPACES: usize = 4;
const IDS: usize = 1 << 2;

struct Locked(Mutex<Tables<CPUS>>);

impl Lock<Tables<CPUS>> for Locked {
    fn with<R>(&self, f: impl FnOnce(&mut Tables<CPUS>) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }
}

/// A CPU's TLB: by identifier the space whose translation it holds, and the frame.
struct Tlb(Mutex<[Option<(usize, usize)>; IDS]>);

#[cfg(loom)]
impl Tlb {
    fn flush(&self, id: u16) {
        self.0.lock().unwrap()[usize::from(id)] = None;
    }
}

impl Hardware for &Tlb {
    fn id_bits(&self) -> u32 {
        2
    }

    fn flush_local_all(&self) {
        *self.0.lock().unwrap() = [None; IDS];
    }
}

fn allocator() -> Allocator<Locked, CPUS> {
    Allocator::new(Locked(Mutex::new(Tables::new())))
}

fn tlbs() -> [Tlb; CPUS] {
    std::array::from_fn(|_| Tlb(Mutex::new([None; IDS])))
}

#[cfg(loom)]
mod races {
    use super::*;
    use asid::Context;
    use fence::Holders;
    use loom::sync::atomic::{AtomicUsize, Ordering::*, fence};
    use loom::thread;
    use std::sync::Arc;

    struct Machine {
        allocator: Allocator<Locked, CPUS>,
        ids: [ContextId; SPACES],
        /// The entry of each space: a frame, or 0.
        entries: [AtomicUsize; SPACES],
        /// Which frames were freed, as bits.
        freed: AtomicUsize,
        holders: [Holders<1>; SPACES],
        tlbs: [Tlb; CPUS],
    }

    /// What a CPU runs.
    struct Cpu {
        machine: Arc<Machine>,
        index: usize,
        runs: Option<(usize, u16)>,
    }

    impl Machine {
        fn new() -> Arc<Self> {
            Arc::new(Machine {
                allocator: allocator(),
                ids: std::array::from_fn(|_| ContextId::new()),
                entries: std::array::from_fn(|space| AtomicUsize::new(space + 1)),
                freed: AtomicUsize::new(0),
                holders: std::array::from_fn(|_| Holders::new()),
                tlbs: tlbs(),
            })
        }

        fn cpu(self: &Arc<Self>, index: usize) -> Cpu {
            Cpu {
                machine: self.clone(),
                index,
                runs: None,
            }
        }

        /// Takes the frame out of the space's entry, and frees it when no TLB holds it any more.
        /// `flush` forgets what `id` has, on all CPUs that may use it.
        fn unmap(&self, space: usize, flush: impl FnOnce(u16)) {
            let frame = self.entries[space].swap(0, AcqRel);
            fence(SeqCst);
            if let Some(id) = self.ids[space].get() {
                flush(id);
            }
            self.freed.fetch_or(1 << frame, Release);
        }

        /// As on arm64: the hardware reaches all CPUs.
        fn unmap_broadcast(&self, space: usize) {
            self.unmap(space, |id| self.tlbs.iter().for_each(|tlb| tlb.flush(id)));
        }

        /// As on RISC-V: only CPUs that may run the space are notified, by CPU `own`.
        fn unmap_told(&self, space: usize, own: usize) {
            self.unmap(space, |id| {
                self.tlbs[own].flush(id);
                self.holders[space].change(
                    own,
                    |cpu| self.allocator.active(cpu).may_run(id),
                    |cpu| self.tlbs[cpu].flush(id),
                );
            });
        }
    }

    impl Cpu {
        fn switch(&mut self, space: usize) {
            let machine = &*self.machine;
            let tlb = &machine.tlbs[self.index];
            let context = machine
                .allocator
                .switch(&machine.ids[space], self.index, &tlb);
            if machine.holders[space].enter_space(self.index) {
                tlb.flush(context.id());
            }
            // Until the tables are loaded, the CPU may still use those of the space before.
            self.access();
            self.runs = Some((space, context.id()));
            machine.allocator.switched(self.index, context);
            self.access();
        }

        /// Runs its space again.
        fn stay(&mut self) {
            let (space, _) = self.runs.unwrap();
            let machine = &*self.machine;
            match machine.allocator.stays(&machine.ids[space], self.index) {
                Some(context) => {
                    self.runs = Some((space, context.id()));
                    self.access();
                }
                None => self.switch(space),
            }
        }

        fn leave(&mut self) {
            let machine = &*self.machine;
            machine.allocator.leave(self.index);
            self.access();
            self.runs = None;
            machine.allocator.switched(self.index, Context::NONE);
        }

        /// Uses the space's entry: what the TLB holds of it, else what is there now.
        fn access(&self) {
            let Some((space, id)) = self.runs else { return };
            let machine = &*self.machine;
            let mut tlb = machine.tlbs[self.index].0.lock().unwrap();
            let held = &mut tlb[usize::from(id)];
            let (of, frame) =
                *held.get_or_insert_with(|| (space, machine.entries[space].load(Relaxed)));
            assert_eq!(of, space, "another space's translation is used");
            let freed = machine.freed.load(Relaxed);
            assert!(
                frame == 0 || freed >> frame & 1 == 0,
                "a freed frame is used"
            );
        }
    }

    fn few_preemptions(run: impl Fn() + Sync + Send + 'static) {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(run);
    }

    /// Three spaces take all identifiers; CPU 0 goes on to the fourth while CPU 1 switches.
    #[test]
    fn a_switch_beside_a_rollover() {
        few_preemptions(|| {
            let machine = Machine::new();
            let (mut cpu0, mut cpu1) = (machine.cpu(0), machine.cpu(1));
            (0..3).for_each(|space| cpu0.switch(space));
            cpu1.switch(0);
            let other = thread::spawn(move || {
                cpu1.switch(1);
                cpu1
            });
            cpu0.switch(3);
            let mut cpu1 = other.join().unwrap();
            let ids = [&cpu0, &cpu1].map(|cpu| cpu.runs.unwrap().1);
            assert_ne!(ids[0], ids[1], "two spaces that run have one identifier");
            cpu0.access();
            cpu1.switch(3);
            assert_eq!(
                cpu1.runs, cpu0.runs,
                "one space that runs has two identifiers"
            );
            cpu1.switch(2);
            cpu0.switch(1);
            cpu0.switch(0);
        });
    }

    /// The same while CPU 1 runs its space again, which it keeps.
    #[test]
    fn staying_beside_a_rollover() {
        few_preemptions(|| {
            let machine = Machine::new();
            let (mut cpu0, mut cpu1) = (machine.cpu(0), machine.cpu(1));
            (0..3).for_each(|space| cpu0.switch(space));
            cpu1.switch(0);
            let other = thread::spawn(move || {
                cpu1.stay();
                cpu1.stay();
                cpu1
            });
            cpu0.switch(3);
            cpu0.switch(1);
            let mut cpu1 = other.join().unwrap();
            assert_eq!(cpu1.runs, Some((0, 1)));
            cpu0.switch(0);
            assert_eq!(
                cpu1.runs, cpu0.runs,
                "one space that runs has two identifiers"
            );
            cpu1.stay();
            cpu0.switch(2);
            cpu0.switch(3);
            cpu1.switch(3);
        });
    }

    /// The same while CPU 1 leaves its space for none, and comes back.
    #[test]
    fn leaving_beside_a_rollover() {
        few_preemptions(|| {
            let machine = Machine::new();
            let (mut cpu0, mut cpu1) = (machine.cpu(0), machine.cpu(1));
            (0..3).for_each(|space| cpu0.switch(space));
            (0..3).rev().for_each(|space| cpu1.switch(space));
            let other = thread::spawn(move || {
                cpu1.leave();
                cpu1
            });
            cpu0.switch(3);
            let mut cpu1 = other.join().unwrap();
            cpu1.switch(3);
            assert_eq!(
                cpu1.runs, cpu0.runs,
                "one space that runs has two identifiers"
            );
        });
    }

    /// An entry goes while the space gets its first identifier.
    #[test]
    fn a_change_beside_a_first_identifier() {
        few_preemptions(|| {
            let machine = Machine::new();
            let mut cpu1 = machine.cpu(1);
            let other = thread::spawn(move || {
                cpu1.switch(0);
                cpu1
            });
            machine.unmap_broadcast(0);
            other.join().unwrap().access();
        });
    }

    /// An entry goes while the space gets another identifier, as its own was given to another
    /// space.
    #[test]
    fn a_change_beside_a_new_identifier() {
        few_preemptions(|| {
            let machine = Machine::new();
            let (mut cpu0, mut cpu1) = (machine.cpu(0), machine.cpu(1));
            (0..SPACES).for_each(|space| cpu0.switch(space));
            let other = thread::spawn(move || {
                cpu1.switch(0);
                cpu1
            });
            machine.unmap_broadcast(0);
            let cpu1 = other.join().unwrap();
            assert_ne!(cpu1.runs, Some((0, 1)));
            cpu1.access();
        });
    }

    /// An entry goes while a CPU comes to the space, or leaves it.
    #[test]
    fn a_change_told_to_those_who_run_the_space() {
        few_preemptions(|| {
            let machine = Machine::new();
            let mut cpu1 = machine.cpu(1);
            cpu1.switch(1);
            cpu1.switch(0);
            let other = thread::spawn(move || {
                cpu1.switch(1);
                cpu1.switch(0);
                cpu1
            });
            machine.unmap_told(1, 0);
            let mut cpu1 = other.join().unwrap();
            cpu1.switch(1);
        });
        few_preemptions(|| {
            let machine = Machine::new();
            let mut cpu1 = machine.cpu(1);
            cpu1.switch(1);
            let other = thread::spawn(move || {
                cpu1.leave();
                cpu1
            });
            machine.unmap_told(1, 0);
            other.join().unwrap().switch(1);
        });
    }

    /// An entry goes after a rollover, of which a CPU that comes to the space has not heard.
    #[test]
    fn a_change_told_after_a_rollover() {
        few_preemptions(|| {
            let machine = Machine::new();
            let (mut cpu0, mut cpu1) = (machine.cpu(0), machine.cpu(1));
            (0..3).for_each(|space| cpu0.switch(space));
            cpu1.switch(1);
            cpu1.switch(0);
            let other = thread::spawn(move || {
                cpu1.switch(1);
                cpu1
            });
            cpu0.switch(3);
            machine.unmap_told(1, 0);
            other.join().unwrap().access();
        });
    }
}

/// A space keeps its identifier in its generation, and over a rollover while a CPU runs it.
#[cfg(not(loom))]
#[test]
fn a_space_that_runs_keeps_its_identifier() {
    let (allocator, tlbs) = (allocator(), tlbs());
    let ids: [ContextId; SPACES] = std::array::from_fn(|_| ContextId::new());
    let run = |cpu: usize, space: usize| {
        let context = allocator.switch(&ids[space], cpu, &&tlbs[cpu]);
        allocator.switched(cpu, context);
        context.id()
    };
    assert_eq!([run(0, 0), run(0, 1), run(0, 2), run(0, 0)], [1, 2, 3, 1]);
    assert_eq!(run(1, 1), 2);
    // The rollover: CPU 0 keeps 1 and CPU 1 keeps 2.
    assert_eq!(run(0, 3), 3);
    assert_eq!([run(1, 1), run(0, 1)], [2, 2]);
    // 1 was kept for the space that CPU 0 ran, which finds it again.
    assert_eq!(run(1, 0), 1);
    assert!(allocator.active(1).may_run(1) && !allocator.active(0).may_run(3));
    let stays = |cpu: usize, space: usize| {
        let context = allocator.stays(&ids[space], cpu);
        context.map(asid::Context::id)
    };
    assert_eq!(
        [stays(0, 1), stays(0, 0), stays(1, 0)],
        [Some(2), None, Some(1)]
    );
}

/// With fewer identifiers than CPUs and one to spare, all spaces share one.
#[cfg(not(loom))]
#[test]
fn too_few_identifiers_are_shared() {
    struct One;
    impl Hardware for One {
        fn id_bits(&self) -> u32 {
            1
        }
        fn flush_local_all(&self) {}
    }
    let allocator = allocator();
    let ids: [ContextId; 2] = std::array::from_fn(|_| ContextId::new());
    for (cpu, id) in ids.iter().enumerate() {
        assert_eq!(allocator.switch(id, cpu, &One).id(), asid::SHARED);
        assert_eq!(id.get(), Some(asid::SHARED));
        assert!(allocator.stays(id, cpu).is_none());
    }
}
