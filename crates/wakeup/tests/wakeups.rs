//! No wake-up is lost and no thread is in two queues, under every interleaving with
//! `RUSTFLAGS="--cfg loom"`, and in a history without.

use wakeup::{RUNNABLE, Sleeper, Wake};

const ASLEEP: u32 = 1;
#[cfg(not(loom))]
const STOPPED: u32 = 8;

#[cfg(loom)]
mod races {
    use super::*;
    use loom::sync::atomic::{AtomicBool, Ordering::*};
    use loom::sync::{Condvar, Mutex, MutexGuard};
    use loom::thread;
    use std::sync::Arc;
    use wakeup::Waiters;

    /// A thread that sleeps until `condition` holds, the run queues of two CPUs, and the list that
    /// the thread waits in.
    struct Machine {
        condition: AtomicBool,
        sleeper: Sleeper,
        /// How often the thread is in each CPU's queue.
        queues: [Mutex<usize>; 2],
        switched_to: Mutex<bool>,
        switch: Condvar,
        list: Mutex<bool>,
        waiters: Waiters,
    }

    /// A CPU, whose queue is locked.
    type Queue<'a> = (usize, MutexGuard<'a, usize>);

    impl Machine {
        fn new() -> Arc<Self> {
            let sleeper = Sleeper::new(RUNNABLE);
            sleeper.enqueue(0);
            Arc::new(Machine {
                condition: AtomicBool::new(false),
                sleeper,
                queues: [Mutex::new(0), Mutex::new(0)],
                switched_to: Mutex::new(false),
                switch: Condvar::new(),
                list: Mutex::new(false),
                waiters: Waiters::new(),
            })
        }

        fn queue(&self, cpu: usize) -> Queue<'_> {
            (cpu, self.queues[cpu].lock().unwrap())
        }

        fn is_ready(&self) -> bool {
            self.condition.load(Relaxed)
        }

        /// As `sched::schedule`: loom finds a deadlock where nobody wakes the thread.
        fn schedule(&self) {
            let queue = self.queue(self.sleeper.cpu());
            if self.sleeper.state() == RUNNABLE {
                return;
            }
            self.sleeper.dequeue();
            drop(queue);
            let mut switched_to = self.switched_to.lock().unwrap();
            while !*switched_to {
                switched_to = self.switch.wait(switched_to).unwrap();
            }
            *switched_to = false;
            drop(switched_to);
            let (_, mut queue) = self.queue(self.sleeper.cpu());
            *queue -= 1;
            assert_eq!(*queue, 0, "the thread is in a queue twice");
        }

        /// As `sched::wake_from`, onto the other CPU.
        fn act(&self, wake: Wake<Queue<'_>>) -> bool {
            match wake {
                Wake::NotAsleep => return false,
                Wake::Running => return true,
                Wake::Asleep((cpu, queue)) => {
                    self.sleeper.set_cpu(1 - cpu);
                    drop(queue);
                    let (cpu, mut queue) = self.queue(1 - cpu);
                    self.sleeper.enqueue(cpu);
                    *queue += 1;
                }
            }
            *self.switched_to.lock().unwrap() = true;
            self.switch.notify_one();
            true
        }

        fn wake(&self) -> bool {
            self.act(self.sleeper.wake(ASLEEP, |cpu| self.queue(cpu)))
        }

        fn wait(&self) {
            loop {
                self.sleeper.prepare(ASLEEP);
                if self.is_ready() {
                    break;
                }
                self.schedule();
            }
            self.sleeper.set_runnable();
        }

        /// As `WaitQueue::wait_in`.
        fn wait_in_list(&self) {
            loop {
                self.sleeper.announce(ASLEEP);
                let mut list = self.list.lock().unwrap();
                *list = true;
                self.waiters.set(1);
                drop(list);
                self.waiters.entered();
                if self.is_ready() {
                    break;
                }
                self.schedule();
            }
            self.sleeper.set_runnable();
        }

        /// As `WaitQueue::wake_all`, and a futex's.
        fn wake_list(&self) {
            if self.waiters.after_change() == 0 {
                return;
            }
            let mut list = self.list.lock().unwrap();
            let found = std::mem::take(&mut *list);
            self.waiters.set(0);
            drop(list);
            if found {
                self.act(self.sleeper.wake_listed(ASLEEP, |cpu| self.queue(cpu)));
            }
        }

        /// As `futex::enter_and_wait`: enters the list once, and announces further sleeps there.
        fn wait_listed(&self) {
            self.sleeper.prepare(ASLEEP);
            *self.list.lock().unwrap() = true;
            self.waiters.set(1);
            self.waiters.entered();
            self.wait();
        }

        fn set(&self) {
            self.condition.store(true, Relaxed);
        }
    }

    /// Runs one thread that waits beside those that wake it.
    fn beside<const N: usize>(wait: fn(&Machine), wakers: [fn(&Machine); N]) {
        let mut few = loom::model::Builder::new();
        few.preemption_bound = Some(2);
        few.check(move || {
            let machine = Machine::new();
            let others = wakers.map(|waker| {
                let machine = machine.clone();
                thread::spawn(move || waker(&machine))
            });
            wait(&machine);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(machine.sleeper.state(), RUNNABLE);
            let queued = machine
                .queues
                .each_ref()
                .map(|queue| *queue.lock().unwrap());
            assert_eq!(queued, [0, 0], "a thread that runs is in a queue");
        });
    }

    /// Changes the condition and wakes the thread, whether it is in a list or not.
    fn set_and_wake(machine: &Machine) {
        machine.set();
        machine.wake();
    }

    #[test]
    fn a_thread_that_prepares_sees_the_condition_or_is_woken() {
        beside(Machine::wait, [set_and_wake]);
    }

    /// The first wake-up has another reason, and moves the thread to the other CPU.
    #[test]
    fn a_thread_that_was_woken_for_nothing_sleeps_again() {
        beside(Machine::wait, [set_and_wake, |machine| _ = machine.wake()]);
    }

    /// One wake-up moves the thread while another looks for its CPU.
    #[test]
    fn a_thread_that_moves_is_woken_where_it_is() {
        let wake_twice = |machine: &Machine| {
            machine.wake();
            set_and_wake(machine);
        };
        beside(Machine::wait, [wake_twice, |machine| _ = machine.wake()]);
    }

    #[test]
    fn a_thread_in_a_list_sees_the_condition_or_is_woken() {
        let set_and_wake = |machine: &Machine| {
            machine.set();
            machine.wake_list();
        };
        beside(Machine::wait_in_list, [set_and_wake]);
    }

    #[test]
    fn a_thread_that_was_woken_for_nothing_enters_the_list_again() {
        let set_and_wake = |machine: &Machine| {
            machine.set();
            machine.wake_list();
        };
        beside(
            Machine::wait_in_list,
            [set_and_wake, |machine| _ = machine.wake()],
        );
    }

    #[test]
    fn a_thread_that_is_moved_is_found_in_one_list_or_the_other() {
        loom::model(|| {
            let lists = Arc::new([Waiters::new(), Waiters::new()]);
            lists[0].set(1);
            let moved = lists.clone();
            let mover = thread::spawn(move || moved[0].moved(0, &moved[1], 1));
            let found = lists.each_ref().map(Waiters::after_change);
            assert_ne!(found, [0, 0], "the waker missed it in both lists");
            mover.join().unwrap();
        });
    }

    /// A thread that takes another out of the list announces it first, and then wakes it.
    #[test]
    fn a_thread_that_stays_in_its_list_is_woken() {
        let take_and_wake = |machine: &Machine| {
            // The change that the count is about: the futex's word. Here it is always in time.
            while machine.waiters.after_change() == 0 {
                thread::yield_now();
            }
            assert!(std::mem::take(&mut *machine.list.lock().unwrap()));
            machine.waiters.set(0);
            set_and_wake(machine);
        };
        beside(
            Machine::wait_listed,
            [take_and_wake, |machine| _ = machine.wake()],
        );
    }
}

/// A wake-up ends the sleeps that it names, and says what is left to do.
#[cfg(not(loom))]
#[test]
fn a_wake_up_finds_what_the_thread_does() {
    let thread = Sleeper::new(RUNNABLE);
    thread.enqueue(3);
    let wake = |states| thread.wake(states, |cpu| cpu);
    assert!(matches!(wake(ASLEEP), Wake::NotAsleep));
    thread.prepare(STOPPED);
    assert!(matches!(wake(ASLEEP), Wake::NotAsleep));
    assert!(matches!(wake(STOPPED), Wake::Running));
    assert_eq!(thread.state(), RUNNABLE);
    thread.prepare(ASLEEP);
    thread.dequeue();
    assert!(matches!(wake(ASLEEP | STOPPED), Wake::Asleep(3)));
    assert!(matches!(wake(ASLEEP), Wake::NotAsleep));
}
