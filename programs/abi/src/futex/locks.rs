//! Locks: PI futexes, and robust ones.

use super::*;
use crate::doing::await_state;

pub unsafe fn locks() {
    unsafe {
        let word = AtomicU32::new(0);
        tell("lock", futex(&word, LOCK_PI, 0, ptr::null()));
        println!("has it: {}", held(&word));
        tell("lock again", futex(&word, LOCK_PI, 0, ptr::null()));
        tell("try again", futex(&word, TRYLOCK_PI, 0, ptr::null()));
        thread::scope(|scope| {
            scope.spawn(|| {
                tell("another's try", futex(&word, TRYLOCK_PI, 0, ptr::null()));
                tell("another's unlock", futex(&word, UNLOCK_PI, 0, ptr::null()));
                tell("another's lock, in time", futex(&word, LOCK_PI, 0, &PAST));
                tell("by the other clock", futex(&word, LOCK_PI2, 0, &PAST));
            });
        });
        tell("unlock", futex(&word, UNLOCK_PI, 0, ptr::null()));
        println!("has it: {}", held(&word));
        tell("unlock again", futex(&word, UNLOCK_PI, 0, ptr::null()));
        word.store(0x3f_fff0, SeqCst);
        tell("of nobody who lives", futex(&word, LOCK_PI, 0, ptr::null()));
        tell("by no clock", futex(&word, LOCK_PI | REALTIME, 0, &PAST));
        let odd = &*word.as_ptr().cast::<u8>().add(1).cast::<AtomicU32>();
        tell(
            "misaligned",
            libc::syscall(libc::SYS_futex, ptr::from_ref(odd), LOCK_PI, 0, 0usize),
        );
    }
}

pub unsafe fn handed_on() {
    unsafe {
        let (word, inside) = (AtomicU32::new(0), AtomicU32::new(0));
        futex(&word, LOCK_PI, 0, ptr::null());
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let result = futex(&word, LOCK_PI, 0, ptr::null());
                        let alone = inside.fetch_add(1, SeqCst) == 0;
                        let own = word.load(SeqCst) & TID == libc::gettid() as u32;
                        inside.fetch_sub(1, SeqCst);
                        result == 0 && alone && own && futex(&word, UNLOCK_PI, 0, ptr::null()) == 0
                    })
                })
                .collect();
            until_waited_for(&word);
            tell("hand it on", futex(&word, UNLOCK_PI, 0, ptr::null()));
            let got = waiters.into_iter().map(|waiter| waiter.join().unwrap());
            println!("got it: {}", got.filter(|got| *got).count());
        });
        println!("has it: {}", held(&word));
    }
}

/// UNLOCK_PI does not miss a new waiter while it must first copy the word's page, which is a
/// private page of a file.
pub unsafe fn given_up_at_a_fault() {
    const ROUNDS: u32 = 400;
    const PAGE: usize = 1 << 16;
    unsafe {
        let file = libc::memfd_create(c"word".as_ptr(), 0);
        libc::ftruncate(file, PAGE as i64);
        let own = libc::gettid() as u32 | WAITERS;
        libc::pwrite(file, (&raw const own).cast(), 4, 0);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(ptr::null_mut(), PAGE, rights, libc::MAP_PRIVATE, file, 0);
        let word = &*place.cast::<AtomicU32>();
        let [round, done] = [const { AtomicU32::new(0) }; 2];
        let lost = thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut lost = 0;
                for own in 1..=ROUNDS {
                    while round.load(SeqCst) < own {
                        hint::spin_loop();
                    }
                    let mut until = std::mem::zeroed();
                    libc::clock_gettime(libc::CLOCK_REALTIME, &mut until);
                    until.tv_sec += 20;
                    lost += i32::from(lost == 0 && futex(word, LOCK_PI, 0, &until) != 0);
                    done.store(own, SeqCst);
                }
                lost
            });
            for own in 1..=ROUNDS {
                libc::madvise(place, PAGE, libc::MADV_DONTNEED);
                word.load(SeqCst);
                round.store(own, SeqCst);
                (0..own * 37 % 3000).for_each(|_| hint::spin_loop());
                futex(word, UNLOCK_PI, 0, ptr::null());
                while done.load(SeqCst) < own {
                    thread::yield_now();
                }
            }
            waiter.join().unwrap()
        });
        println!("never got a lock that nobody has: {lost}");
        libc::munmap(place, PAGE);
        libc::close(file);
    }
}

/// A thread exits with a lock for which another waits.
pub unsafe fn owner_gone() {
    unsafe {
        let (word, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            let owner = scope.spawn(|| {
                futex(&word, LOCK_PI, 0, ptr::null());
                taken.store(1, SeqCst);
                until_waited_for(&word);
            });
            let heir = scope.spawn(|| {
                while taken.load(SeqCst) == 0 {
                    thread::yield_now();
                }
                // The lock may be free between the owner's last look and its exit.
                let result = futex(&word, LOCK_PI, 0, ptr::null());
                let own = word.load(SeqCst) & TID == libc::gettid() as u32;
                if result == 0 {
                    println!("of the dead: {own} {}", held(&word));
                    futex(&word, UNLOCK_PI, 0, ptr::null());
                } else {
                    println!("of the dead: true this thread, died");
                }
            });
            owner.join().unwrap();
            heir.join().unwrap();
        });
    }
}

/// Waiters are not overtaken when the owner of a robust lock has died, or when a program overwrites
/// the word.
pub unsafe fn not_overtaken() {
    unsafe {
        let word = AtomicU32::new(0);
        let own = libc::gettid() as u32 | WAITERS;
        let second = AtomicU32::new(0);
        futex(&word, LOCK_PI, 0, ptr::null());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                second.store(libc::gettid() as u32, SeqCst);
                let result = futex(&word, LOCK_PI, 0, ptr::null());
                let owner = held(&word);
                futex(&word, UNLOCK_PI, 0, ptr::null());
                format!("waited: {result}, has it: {owner}")
            });
            until_waited_for(&word);
            // It waits once it is in the lock's queue, where a waiter with a deadline in the past
            // queues after it.
            await_call(second.load(SeqCst));
            for (what, value) in [
                ("held", own),
                ("held, died", own | OWNER_DIED),
                ("died", OWNER_DIED | WAITERS),
                ("free", 0),
                ("free, waited for", WAITERS),
                ("another's", libc::getppid() as u32 | WAITERS),
                ("nobody's", 0x3f_fff0 | WAITERS),
            ] {
                word.store(value, SeqCst);
                let other = || {
                    for (call, operation) in [
                        ("try", TRYLOCK_PI),
                        ("lock", LOCK_PI),
                        ("unlock", UNLOCK_PI),
                    ] {
                        let result = futex(&word, operation, 0, &PAST);
                        tell(&format!("{what}: {call}"), result);
                    }
                };
                thread::scope(|scope| scope.spawn(other).join().unwrap());
            }
            word.store(own, SeqCst);
            tell("hand it on", futex(&word, UNLOCK_PI, 0, ptr::null()));
            println!("{}", waiter.join().unwrap());
        });
        println!("has it: {}", held(&word));
    }
}

/// Two of three processes die at once, the owner of the lock and its first waiter: the third gets
/// the lock.
pub unsafe fn two_gone() {
    const ROUNDS: usize = 60;
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let place = libc::mmap(ptr::null_mut(), 1 << 16, rights, shared, -1, 0);
        let word = &*place.cast::<AtomicU32>();
        let mut got = 0;
        for round in 0..ROUNDS {
            word.store(0, SeqCst);
            let locked = |wait: bool| {
                let child = libc::fork();
                if child == 0 {
                    let result = futex(word, LOCK_PI, 0, ptr::null());
                    let own = word.load(SeqCst) & TID == libc::gettid() as u32;
                    if wait {
                        libc::pause();
                    }
                    libc::_exit(i32::from(result != 0 || !own));
                }
                child
            };
            let owner = locked(true);
            while word.load(SeqCst) & TID != owner as u32 {
                thread::yield_now();
            }
            let heir = locked(true);
            until_waited_for(word);
            await_state(heir, "S");
            let last = locked(false);
            await_state(last, "S");
            let both = match round % 2 {
                0 => [owner, heir],
                _ => [heir, owner],
            };
            both.iter()
                .for_each(|&pid| _ = libc::kill(pid, libc::SIGKILL));
            both.iter()
                .for_each(|&pid| _ = libc::waitpid(pid, ptr::null_mut(), 0));
            let mut status = 1;
            for _ in 0..2000 {
                if libc::waitpid(last, &mut status, libc::WNOHANG) == last {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
                status = 1;
            }
            got += usize::from(status == 0);
            libc::kill(last, libc::SIGKILL);
            libc::waitpid(last, ptr::null_mut(), libc::WNOHANG);
        }
        println!("the third has it: {got} of {ROUNDS}");
        libc::munmap(place, 1 << 16);
    }
}

/// A lock in a robust list, with the link.
#[repr(C)]
struct Entry {
    next: AtomicUsize,
    word: AtomicU32,
}

/// `struct robust_list_head`.
#[repr(C)]
struct Head {
    first: AtomicUsize,
    offset: usize,
    pending: AtomicUsize,
}

pub unsafe fn robust() {
    unsafe {
        let entry = Entry {
            next: AtomicUsize::new(0),
            word: AtomicU32::new(0),
        };
        let head = Head {
            first: AtomicUsize::new(0),
            offset: std::mem::offset_of!(Entry, word),
            pending: AtomicUsize::new(0),
        };
        let (head_at, entry_at) = ((&raw const head) as usize, (&raw const entry) as usize);
        for (what, mark) in [("a robust futex", 0), ("a robust lock", 1)] {
            entry.word.store(0, SeqCst);
            thread::scope(|scope| {
                scope.spawn(|| {
                    entry.next.store(head_at, SeqCst);
                    head.first.store(entry_at | mark, SeqCst);
                    let size = size_of::<Head>();
                    libc::syscall(libc::SYS_set_robust_list, head_at, size);
                    let (mut list, mut len) = (0usize, 0usize);
                    libc::syscall(libc::SYS_get_robust_list, 0, &mut list, &mut len);
                    println!("the list: {} {len}", list == head_at);
                    entry.word.store(libc::gettid() as u32, SeqCst);
                });
            });
            // The thread may be joined before the kernel has released the lock.
            while entry.word.load(SeqCst) & OWNER_DIED == 0 {
                thread::yield_now();
            }
            println!("{what} of the dead: {}", held(&entry.word));
        }
        tell("taken", futex(&entry.word, LOCK_PI, 0, ptr::null()));
        println!("has it: {}", held(&entry.word));
        tell(
            "odd size",
            libc::syscall(libc::SYS_set_robust_list, head_at, 8),
        );
        let list = libc::syscall(libc::SYS_get_robust_list, 0x3f_ffff, ptr::null::<u8>(), 0);
        tell("the list of nobody", list);
    }
}

/// A thread that was woken for a dead owner, and died before it locked the futex, wakes the next.
pub unsafe fn woken_and_dead() {
    unsafe {
        let entry = Entry {
            next: AtomicUsize::new(0),
            word: AtomicU32::new(OWNER_DIED | WAITERS),
        };
        let head = Head {
            first: AtomicUsize::new(0),
            offset: std::mem::offset_of!(Entry, word),
            pending: AtomicUsize::new(0),
        };
        let (head_at, entry_at) = ((&raw const head) as usize, (&raw const entry) as usize);
        head.first.store(head_at, SeqCst);
        head.pending.store(entry_at, SeqCst);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let end = libc::timespec {
                    tv_sec: 60,
                    tv_nsec: 0,
                };
                futex(&entry.word, libc::FUTEX_WAIT, OWNER_DIED | WAITERS, &end)
            });
            // Threads die until one wakes the waiter.
            while !waiter.is_finished() {
                scope.spawn(|| {
                    let size = size_of::<Head>();
                    libc::syscall(libc::SYS_set_robust_list, head_at, size);
                });
                thread::sleep(Duration::from_millis(10));
            }
            println!("the next is woken: {:?}", waiter.join().ok());
        });
    }
}

/// FUTEX_LOCK_PI refuses a word with plain waiters.
pub unsafe fn mixed() {
    unsafe {
        let word = AtomicU32::new(0);
        let call = |what: &str, operation| tell(what, futex(&word, operation, 0, ptr::null()));
        call("a lock", LOCK_PI);
        let value = word.load(SeqCst);
        let waiter = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                waiter.store(libc::gettid() as u32, SeqCst);
                futex(&word, libc::FUTEX_WAIT, value, ptr::null());
            });
            while waiter.load(SeqCst) == 0 {
                thread::yield_now();
            }
            await_state(waiter.load(SeqCst) as i32, "S");
            let other = scope.spawn(|| call("for another", LOCK_PI));
            _ = other.join();
            call("given up", UNLOCK_PI);
            tell("woken", futex(&word, libc::FUTEX_WAKE, 1, ptr::null()));
        });
        call("given up alone", UNLOCK_PI);
        println!("nobody has it: {:#x}", word.load(SeqCst));
    }
}
