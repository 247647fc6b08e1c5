//! The CPUs that are notified of changes: no CPU uses a stale translation, under every interleaving
//! with `RUSTFLAGS="--cfg loom"`, and in long random histories without.

use fence::Holders;

#[cfg(loom)]
mod races {
    use super::Holders;
    use loom::sync::atomic::{AtomicUsize, Ordering::*, fence};
    use loom::sync::{Arc, Mutex};
    use loom::{model, thread};

    /// An address space of one entry, and what two CPUs know of it.
    struct Machine {
        holders: Holders<1>,
        /// The frame that the entry names, and whether it was freed. The entry goes from 1 to 2, or
        /// to 0 for good.
        entry: AtomicUsize,
        freed: AtomicUsize,
        /// Which space each CPU runs, written before and after it can use the entry: 1 is this one.
        announced: [AtomicUsize; 2],
        loaded: [AtomicUsize; 2],
        /// Each CPU's copy of the entry.
        held: [Mutex<Option<usize>>; 2],
    }

    impl Machine {
        fn new() -> Arc<Self> {
            Arc::new(Machine {
                holders: Holders::new(),
                entry: AtomicUsize::new(1),
                freed: AtomicUsize::new(0),
                announced: [AtomicUsize::new(0), AtomicUsize::new(0)],
                loaded: [AtomicUsize::new(0), AtomicUsize::new(0)],
                held: [Mutex::new(None), Mutex::new(None)],
            })
        }

        fn enter_space(&self, cpu: usize) {
            self.announced[cpu].store(1, Relaxed);
            fence(SeqCst);
            if self.holders.enter_space(cpu) {
                *self.held[cpu].lock().unwrap() = None;
            }
            self.loaded[cpu].store(1, Release);
        }

        /// The program's access: what the CPU holds of the entry, else what it finds there now.
        fn access(&self, cpu: usize) {
            let mut held = self.held[cpu].lock().unwrap();
            let frame = *held.get_or_insert_with(|| self.entry.load(Relaxed));
            assert!(
                frame == 0 || frame != self.freed.load(Relaxed),
                "a freed frame is used"
            );
        }

        fn leave(&self, cpu: usize) {
            self.announced[cpu].store(2, Release);
            self.loaded[cpu].store(2, Release);
        }

        fn runs(&self, cpu: usize) -> bool {
            self.announced[cpu].load(Acquire) == 1 || self.loaded[cpu].load(Acquire) == 1
        }

        /// Takes the frame out of the entry and frees it.
        fn unmap(&self, own: usize) {
            let frame = self.entry.swap(0, AcqRel);
            fence(SeqCst);
            let forget = |cpu: usize| *self.held[cpu].lock().unwrap() = None;
            self.holders.change(own, |cpu| self.runs(cpu), forget);
            if frame != 0 {
                self.freed.store(frame, Release);
            }
        }
    }

    /// CPU 0 changes while CPU 1, which ran the space before and holds its entry, leaves and comes
    /// back.
    #[test]
    fn leaving_and_coming_back() {
        model(|| {
            let machine = Machine::new();
            machine.enter_space(1);
            machine.access(1);
            let other = {
                let machine = machine.clone();
                thread::spawn(move || {
                    machine.leave(1);
                    machine.enter_space(1);
                    machine.access(1);
                })
            };
            machine.unmap(0);
            other.join().unwrap();
            machine.access(1);
        });
    }

    /// The same when it comes for the first time.
    #[test]
    fn coming_first() {
        model(|| {
            let machine = Machine::new();
            let other = {
                let machine = machine.clone();
                thread::spawn(move || {
                    machine.enter_space(1);
                    machine.access(1);
                    machine.leave(1);
                })
            };
            machine.unmap(0);
            other.join().unwrap();
            machine.enter_space(1);
            machine.access(1);
        });
    }

    /// A second change finds the mark of the first, or the CPU that took it back, or one that came
    /// without seeing it.
    #[test]
    fn two_changes() {
        model(|| {
            let machine = Machine::new();
            machine.enter_space(1);
            machine.access(1);
            machine.leave(1);
            let other = {
                let machine = machine.clone();
                thread::spawn(move || {
                    machine.enter_space(1);
                    machine.access(1);
                })
            };
            machine.unmap(0);
            machine.entry.store(2, Release);
            machine.unmap(0);
            other.join().unwrap();
            machine.access(1);
        });
    }

    /// Two CPUs change at once, as faults do, while a third comes back. Few preemptions, or it
    /// takes for ever.
    #[test]
    fn changes_side_by_side() {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(3);
        few.check(|| {
            let machine = Machine::new();
            machine.enter_space(1);
            machine.access(1);
            machine.leave(1);
            let threads = [
                Box::new(|machine: &Machine| machine.unmap(0)) as Box<dyn Fn(&Machine) + Send>,
                Box::new(|machine: &Machine| {
                    machine.enter_space(1);
                    machine.access(1);
                }),
            ];
            let threads = threads.map(|act| {
                let machine = machine.clone();
                thread::spawn(move || act(&machine))
            });
            fence(SeqCst);
            machine.holders.change(
                0,
                |cpu| machine.runs(cpu),
                |cpu| *machine.held[cpu].lock().unwrap() = None,
            );
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            machine.access(1);
        });
    }
}

#[cfg(not(loom))]
mod histories {
    use super::Holders;
    use proptest::prelude::*;

    const CPUS: usize = 70;
    const SPACES: usize = 3;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A CPU runs a space, or none.
        Run(usize, Option<usize>),
        /// A CPU uses the entry of the space that it runs.
        Access(usize),
        /// A CPU changes a space's entry.
        Change(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few CPUs, on both sides of a word's end.
        let cpu = || (0..6usize).prop_map(|cpu| cpu + 61);
        let step = prop_oneof![
            (cpu(), proptest::option::of(0..SPACES)).prop_map(|(cpu, space)| Step::Run(cpu, space)),
            cpu().prop_map(Step::Access),
            (cpu(), 0..SPACES).prop_map(|(cpu, space)| Step::Change(cpu, space)),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 4096 }, ..ProptestConfig::default() })]

        #[test]
        fn only_cpus_that_run_the_space_are_told_and_none_is_stale(steps in steps()) {
            let spaces: [Holders<2>; SPACES] = Default::default();
            let mut entries = [0; SPACES];
            let mut runs = [None; CPUS];
            let mut held = [[None; SPACES]; CPUS];
            for step in steps {
                match step {
                    Step::Run(cpu, space) => {
                        runs[cpu] = space;
                        if space.is_some_and(|space| spaces[space].enter_space(cpu)) {
                            held[cpu][space.unwrap()] = None;
                        }
                    }
                    Step::Access(cpu) => {
                        if let Some(space) = runs[cpu] {
                            let seen = held[cpu][space].get_or_insert(entries[space]);
                            prop_assert_eq!(*seen, entries[space]);
                        }
                    }
                    Step::Change(own, space) => {
                        entries[space] += 1;
                        held[own][space] = None;
                        let mut told = Vec::new();
                        spaces[space].change(own, |cpu| runs[cpu] == Some(space), |cpu| told.push(cpu));
                        for cpu in told {
                            prop_assert!(cpu != own && runs[cpu] == Some(space));
                            held[cpu][space] = None;
                        }
                    }
                }
            }
        }
    }

    /// A CPU that left is looked at before and after its mark, and forgets once.
    #[test]
    fn who_left_forgets_once() {
        let holders = Holders::<2>::new();
        assert!(!holders.enter_space(1) && !holders.enter_space(65));
        let looks = |own| {
            let looks = std::cell::Cell::new(0);
            let runs = |_| {
                looks.set(looks.get() + 1);
                false
            };
            holders.change(own, runs, |_| panic!("nobody runs it"));
            looks.get()
        };
        assert_eq!([looks(0), looks(65)], [4, 2]);
        assert!(holders.enter_space(65) && !holders.enter_space(65));
    }
}
