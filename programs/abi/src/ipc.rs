//! System V shared memory, messages and semaphores; POSIX message queues.

use std::mem;
use std::ptr;

use libc::{c_int, c_long};

use crate::{in_child, tell, tell_end, tell_ok};

const KEY: c_int = 0x5711e;
const NEW: c_int = libc::IPC_CREAT | libc::IPC_EXCL;

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit, every structure passed is complete, and segments are accessed
    // only while they are attached.
    unsafe {
        segments();
        detached();
        messages();
        semaphores();
        waiting();
        queues();
        removed_by_two();
        made_by_two();
        listed();
        copied();
        foreign();
    }
}

/// MSG_COPY never truncates a message.
unsafe fn copied() {
    const COPY: c_int = 0o40000 | libc::IPC_NOWAIT;
    unsafe {
        let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
        libc::msgsnd(queue, ptr::from_ref(&message(5, "abcdef")).cast(), 6, 0);
        let copy = |len, flags| {
            let mut to = message(0, "");
            libc::msgrcv(queue, (&raw mut to).cast(), len, 0, COPY | flags) as i32
        };
        tell("copy", copy(16, 0));
        tell("copy, no room", copy(3, 0));
        tell("copy, to be cut", copy(3, libc::MSG_NOERROR));
        libc::msgctl(queue, libc::IPC_RMID, ptr::null_mut());
    }
}

/// An invalid value is reported before missing rights to the semaphore.
unsafe fn foreign() {
    unsafe {
        let id = libc::semget(libc::IPC_PRIVATE, 2, 0o600);
        tell_end(
            "foreign semaphores",
            in_child(|| {
                libc::setuid(1000);
                tell("too high", set(id, 0, 1 << 20));
                tell("set none", set(id, 2, 1));
                tell("set one before all", set(id, -1, 1));
                tell("set", set(id, 0, 1));
                tell("none", value(id, 2));
                let own = [0u64; 32];
                tell("have", libc::semctl(id, 0, libc::IPC_SET, own.as_ptr()));
            }),
        );
        tell("set one before all", set(id, -1, 1));
        tell("set none", set(id, 2, 1));
        libc::semctl(id, 0, libc::IPC_RMID);
    }
}

/// A key is free once its segment is removed, even if others are removed at the same time.
unsafe fn removed_by_two() {
    const ROUNDS: usize = 3000;
    let renew = |key| {
        let failed = (0..ROUNDS).filter(|_| unsafe {
            let segment = libc::shmget(key, 4096, libc::IPC_CREAT | 0o600);
            libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut()) != 0
        });
        failed.count()
    };
    unsafe {
        // A removed segment that stays until it is detached.
        let kept = libc::shmget(libc::IPC_PRIVATE, 4096, 0o600);
        let at = libc::shmat(kept, ptr::null(), 0);
        libc::shmctl(kept, libc::IPC_RMID, ptr::null_mut());
        let failed = std::thread::scope(|scope| {
            let own = scope.spawn(|| renew(KEY));
            renew(libc::IPC_PRIVATE) + own.join().unwrap_or(ROUNDS)
        });
        println!("removed by two: {failed} failed");
        libc::shmdt(at);
    }
}

/// Two threads that make an object of the same key at once both get it.
unsafe fn made_by_two() {
    const ROUNDS: c_int = 2000;
    let made = |make: fn(c_int) -> c_int, end: fn(c_int) -> c_int| {
        let start = std::sync::Barrier::new(2);
        let rounds = || {
            let failed = (0..ROUNDS).filter(|round| {
                start.wait();
                let object = make(KEY + 1 + round);
                start.wait();
                end(object);
                object < 0
            });
            failed.count()
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(rounds);
            rounds() + other.join().unwrap_or(1)
        })
    };
    // SAFETY: the calls take no pointers.
    let (queue, set, segment): (fn(c_int) -> c_int, fn(c_int) -> c_int, fn(c_int) -> c_int) = (
        |key| unsafe { libc::msgget(key, libc::IPC_CREAT | 0o600) },
        |key| unsafe { libc::semget(key, 1, libc::IPC_CREAT | 0o600) },
        |key| unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | 0o600) },
    );
    println!(
        "made by two, failed: {} {} {}",
        made(queue, |id| unsafe {
            libc::msgctl(id, libc::IPC_RMID, ptr::null_mut())
        }),
        made(set, |id| unsafe { libc::semctl(id, 0, libc::IPC_RMID) }),
        made(segment, |id| unsafe {
            libc::shmctl(id, libc::IPC_RMID, ptr::null_mut())
        }),
    );
}

/// The lines of `/proc/sysvipc`, and requests for information (IPC_INFO and the like).
unsafe fn listed() {
    unsafe {
        let show = |kind: &str, times: usize| {
            let text = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let pid = libc::getpid().to_string();
            let heads: Vec<_> = text
                .lines()
                .take(1)
                .flat_map(str::split_whitespace)
                .collect();
            for line in text.lines() {
                let words: Vec<_> = line.split_whitespace().collect();
                let own = |(head, word): (&&str, &&str)| match head.ends_with("pid") {
                    true if *word == pid => "PID".to_owned(),
                    _ => (*word).to_owned(),
                };
                let known = heads.iter().zip(&words[..words.len() - times]);
                let known: Vec<_> = known.map(own).collect();
                // The ID differs between kernels.
                println!("{}: {} .. {}", kind, known[0], known[2..].join(" "));
            }
        };
        let queue = libc::msgget(KEY, NEW | 0o640);
        libc::msgsnd(queue, ptr::from_ref(&message(1, "abc")).cast(), 3, 0);
        let set = libc::semget(KEY, 3, NEW | 0o604);
        let segment = libc::shmget(KEY, 5000, NEW | 0o600);
        show("msg", 3);
        show("sem", 2);
        // The last two columns are the resident and the swapped bytes.
        show("shm", 5);
        let mut limits = [7u64; 16];
        libc::shmctl(0, 3, limits.as_mut_ptr().cast());
        let written = limits.iter().rposition(|word| *word != 7);
        println!("words of limits: {}", written.map_or(0, |last| last + 1));
        let mut buffer = [0u8; 256];
        tell_ok(
            "any queue",
            libc::msgctl(queue, 13, buffer.as_mut_ptr().cast()) == queue,
        );
        tell_ok(
            "any set",
            libc::semctl(set, 0, 20, buffer.as_mut_ptr()) == set,
        );
        tell_ok(
            "any segment",
            libc::shmctl(segment, 15, buffer.as_mut_ptr().cast()) == segment,
        );
        libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
        libc::semctl(set, 0, libc::IPC_RMID);
        libc::msgctl(queue, libc::IPC_RMID, ptr::null_mut());
        let next = "/proc/sys/kernel/sem_next_id";
        let ask = |number: &str| std::fs::write(next, number).is_ok();
        let told = || {
            std::fs::read_to_string(next)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        println!("no number is asked for: {}", told());
        println!("ask {} {}", ask("3000"), told());
        let first = libc::semget(KEY, 1, NEW | 0o600);
        println!("{first}, then {}", told());
        println!("ask again {}", ask("3000"));
        let second = libc::semget(KEY + 1, 1, NEW | 0o600);
        println!("the next: {second}");
        println!("ask for another {}", ask("70000"));
        let third = libc::semget(KEY + 2, 1, NEW | 0o600);
        println!("{third}");
        for set in [first, second, third] {
            tell("remove", libc::semctl(set, 0, libc::IPC_RMID));
        }
        println!("a bad number {}", ask("-2"));
    }
}

fn tell_address(what: &str, address: *const libc::c_void) {
    tell_ok(what, address as isize != -1);
}

unsafe fn segments() {
    unsafe {
        tell("no segment", libc::shmget(KEY, 100, 0));
        tell("an empty one", libc::shmget(KEY, 0, NEW | 0o600));
        let huge = NEW | libc::SHM_HUGETLB | 0o600;
        tell("of huge pages", libc::shmget(KEY, 2 << 20, huge));
        tell("none was made", libc::shmget(KEY, 0, 0));
        let id = libc::shmget(KEY, 10_000, NEW | 0o640);
        tell_ok("a segment", id >= 0);
        tell("again", libc::shmget(KEY, 10_000, NEW | 0o600));
        println!("found: {}", libc::shmget(KEY, 0, 0) == id);
        tell("larger", libc::shmget(KEY, 10_001, 0));
        let memory = libc::shmat(id, ptr::null(), 0).cast::<u8>();
        tell_address("attach", memory.cast());
        println!("zeroes: {}", (0..12_288).all(|at| *memory.add(at) == 0));
        *memory.add(9_999) = 7;
        let status = || {
            let mut status: libc::shmid_ds = mem::zeroed();
            tell("status", libc::shmctl(id, libc::IPC_STAT, &mut status));
            println!(
                "{} bytes, {} times, mode {:o}",
                status.shm_segsz, status.shm_nattch, status.shm_perm.mode
            );
            (
                status.shm_cpid == libc::getpid(),
                status.shm_lpid == libc::getpid(),
            )
        };
        println!("{:?}", status());
        tell_end(
            "a child",
            in_child(|| {
                status();
                let other = libc::shmat(id, ptr::null(), libc::SHM_RDONLY).cast::<u8>();
                println!("sees {}", *other.add(9_999));
                *memory.add(1) = 8;
                *other.add(1) = 9;
            }),
        );
        println!("wrote {}", *memory.add(1));
        tell_address("attach there", libc::shmat(id, memory.cast(), 0));
        tell_address(
            "attach over it",
            libc::shmat(id, memory.cast(), libc::SHM_REMAP),
        );
        tell_address("attach inside", libc::shmat(id, memory.add(1).cast(), 0));
        tell_address("attach nothing", libc::shmat(id + 1, ptr::null(), 0));
        tell("remove", libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()));
        tell("find the removed", libc::shmget(KEY, 0, 0));
        status();
        println!("still {}", *memory.add(9_999));
        tell("detach inside", libc::shmdt(memory.add(4096).cast()));
        tell("detach", libc::shmdt(memory.cast()));
        tell("detach again", libc::shmdt(memory.cast()));
        tell(
            "remove again",
            libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()),
        );
        tell("odd command", libc::shmctl(0, 99, ptr::null_mut()));
        let private = libc::shmget(libc::IPC_PRIVATE, 4096, 0o600);
        tell_end(
            "another user",
            in_child(|| {
                libc::setuid(1000);
                tell_address("attach", libc::shmat(private, ptr::null(), 0));
                tell(
                    "remove",
                    libc::shmctl(private, libc::IPC_RMID, ptr::null_mut()),
                );
            }),
        );
        tell(
            "remove",
            libc::shmctl(private, libc::IPC_RMID, ptr::null_mut()),
        );
    }
}

/// shmdt(2) of attachments that were split, moved and mixed: it removes the pieces of one
/// attachment that are at their original places.
unsafe fn detached() {
    const PAGE: usize = 4096;
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4 * PAGE, 0o600);
        let attach = || libc::shmat(id, ptr::null(), 0).cast::<u8>();
        let show = |what: &str, memory: *mut u8| {
            let mut status: libc::shmid_ds = mem::zeroed();
            libc::shmctl(id, libc::IPC_STAT, &mut status);
            let there = |page: usize| libc::msync(memory.add(page * PAGE).cast(), PAGE, 1) == 0;
            let pages: Vec<_> = (0..4).map(|page| u8::from(there(page))).collect();
            println!("{what}: {pages:?}, {} attached", status.shm_nattch);
        };

        let cut = attach();
        libc::mprotect(cut.add(PAGE).cast(), PAGE, libc::PROT_READ);
        show("cut", cut);
        tell("detach", libc::shmdt(cut.cast()));
        show("gone", cut);

        let shorter = attach();
        libc::munmap(shorter.cast(), PAGE);
        libc::munmap(shorter.add(2 * PAGE).cast(), PAGE);
        show("shorter", shorter);
        tell(
            "from its second page",
            libc::shmdt(shorter.add(PAGE).cast()),
        );
        tell("detach", libc::shmdt(shorter.cast()));
        show("gone", shorter);

        let moved = attach();
        let hole = libc::mmap(ptr::null_mut(), 4 * PAGE, 0, 0x22, -1, 0).cast::<u8>();
        let to = |from: *mut u8, to: *mut u8, pages: usize| {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(from.cast(), pages * PAGE, pages * PAGE, flags, to)
        };
        to(moved, hole, 4);
        tell("where it was", libc::shmdt(moved.cast()));
        tell("where it is", libc::shmdt(hole.cast()));
        show("gone", hole);

        // Moves a page of another attachment of the same segment to its offset in this one.
        let (one, other) = (attach(), attach());
        libc::munmap(one.add(2 * PAGE).cast(), PAGE);
        to(other.add(2 * PAGE), one.add(2 * PAGE), 1);
        show("mixed", one);
        tell("detach", libc::shmdt(one.cast()));
        show("the other's stays", one);
        tell("detach the other's", libc::shmdt(one.cast()));
        tell("detach the other", libc::shmdt(other.cast()));

        // Pieces beyond the attachment's end, or at another offset, stay.
        let out = attach();
        let far = libc::mmap(ptr::null_mut(), 8 * PAGE, 0, 0x22, -1, 0).cast::<u8>();
        to(out.add(PAGE), far, 1);
        tell("detach", libc::shmdt(out.cast()));
        show("moved out", far);
        tell("detach where it is", libc::shmdt(far.cast()));
        tell("as if it began before", libc::shmdt(far.sub(PAGE).cast()));
        tell("odd", libc::shmdt(far.add(1).cast()));

        // A child has the attachment too.
        let shared = attach();
        tell_end(
            "a child",
            in_child(|| {
                show("shared", shared);
                tell("detach", libc::shmdt(shared.cast()));
            }),
        );
        show("after it", shared);
        tell("remove", libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()));
        tell("detach", libc::shmdt(shared.cast()));
    }
}

#[repr(C)]
struct Message {
    kind: c_long,
    text: [u8; 16],
}

fn message(kind: c_long, text: &str) -> Message {
    let mut message = Message {
        kind,
        text: [0; 16],
    };
    message.text[..text.len()].copy_from_slice(text.as_bytes());
    message
}

unsafe fn messages() {
    unsafe {
        tell("no queue", libc::msgget(KEY, 0));
        let id = libc::msgget(KEY, NEW | 0o600);
        tell_ok("a queue", id >= 0);
        let send = |kind, text: &str| {
            let message = message(kind, text);
            libc::msgsnd(
                id,
                (&raw const message).cast(),
                text.len(),
                libc::IPC_NOWAIT,
            )
        };
        let receive = |kind, len, flags| {
            let mut message = message(0, "");
            let to = (&raw mut message).cast();
            let len = libc::msgrcv(id, to, len, kind, flags | libc::IPC_NOWAIT);
            match usize::try_from(len) {
                Ok(len) => println!(
                    "type {}: {}",
                    message.kind,
                    message.text[..len].escape_ascii()
                ),
                Err(_) => tell("receive", len as i32),
            }
        };
        receive(0, 16, 0);
        tell("type 0", send(0, "x"));
        for (kind, text) in [
            (3, "three"),
            (1, "one"),
            (2, "two"),
            (1, "uno"),
            (5, "five"),
        ] {
            tell("send", send(kind, text));
        }
        let mut status: libc::msqid_ds = mem::zeroed();
        libc::msgctl(id, libc::IPC_STAT, &mut status);
        println!(
            "{} messages, {} bytes at most",
            status.msg_qnum, status.msg_qbytes
        );
        receive(1, 2, 0);
        receive(1, 2, libc::MSG_NOERROR);
        receive(-2, 16, 0);
        receive(-1, 16, 0);
        receive(3, 16, libc::MSG_EXCEPT);
        receive(9, 16, 0);
        receive(0, 16, 0);
        receive(0, 16, 0);
        receive(0, 16, 0);
        let large = [0u64; 1025];
        tell("too long", libc::msgsnd(id, large.as_ptr().cast(), 8193, 0));
        let mut sent = 0;
        while send(1, "0123456789abcdef") == 0 {
            sent += 1;
        }
        println!("fits {sent}");
        tell("full", send(1, "x"));
        status.msg_qbytes = 20_000;
        tell("more room", libc::msgctl(id, libc::IPC_SET, &mut status));
        status.msg_perm.uid = u32::MAX;
        tell("of nobody", libc::msgctl(id, libc::IPC_SET, &mut status));
        tell("fits again", send(1, "x"));
        let waiter = libc::fork();
        if waiter == 0 {
            let mut got = message(0, "");
            let len = libc::msgrcv(id, (&raw mut got).cast(), 16, 77, 0);
            libc::_exit(match len {
                -1 if *libc::__errno_location() == libc::EIDRM => 9,
                len => len as c_int,
            });
        }
        tell("remove", libc::msgctl(id, libc::IPC_RMID, ptr::null_mut()));
        let mut ended = 0;
        libc::waitpid(waiter, &mut ended, 0);
        // It may begin to wait only after the queue is removed.
        println!(
            "who waits ends: {}",
            [9, 255].contains(&libc::WEXITSTATUS(ended))
        );
        tell("send to the removed", send(1, "x"));
        tell(
            "remove again",
            libc::msgctl(id, libc::IPC_RMID, ptr::null_mut()),
        );
    }
}

unsafe fn set(id: c_int, at: c_int, value: c_int) -> c_int {
    unsafe { libc::semctl(id, at, libc::SETVAL, value) }
}

unsafe fn value(id: c_int, at: c_int) -> c_int {
    unsafe { libc::semctl(id, at, libc::GETVAL) }
}

unsafe fn operate(id: c_int, operations: &[(u16, i16, c_int)]) -> c_int {
    unsafe {
        let mut raw: Vec<_> = operations
            .iter()
            .map(|&(at, change, flags)| libc::sembuf {
                sem_num: at,
                sem_op: change,
                sem_flg: flags as i16,
            })
            .collect();
        libc::semop(id, raw.as_mut_ptr(), raw.len())
    }
}

const NOWAIT: c_int = libc::IPC_NOWAIT;
const UNDO: c_int = 0x1000;

unsafe fn semaphores() {
    unsafe {
        tell("no set", libc::semget(KEY, 1, 0));
        tell("an empty set", libc::semget(KEY, 0, NEW | 0o600));
        let id = libc::semget(KEY, 3, NEW | 0o600);
        tell_ok("a set", id >= 0);
        tell("more", libc::semget(KEY, 4, 0));
        println!("found: {}", libc::semget(KEY, 0, 0) == id);
        tell("value", value(id, 0));
        tell("beyond", value(id, 3));
        tell("set", set(id, 0, 5));
        tell("set too high", set(id, 0, 32_768));
        tell("set beyond", set(id, 7, 1));
        tell("take", operate(id, &[(0, -3, 0)]));
        tell("take more", operate(id, &[(0, -3, NOWAIT)]));
        tell("both or none", operate(id, &[(0, -2, 0), (1, -1, NOWAIT)]));
        tell("unchanged", value(id, 0));
        tell("both", operate(id, &[(1, 4, 0), (0, -2, 0), (1, -1, 0)]));
        println!("{} {} {}", value(id, 0), value(id, 1), value(id, 2));
        tell("zero", operate(id, &[(0, 0, 0)]));
        tell("not zero", operate(id, &[(1, 0, NOWAIT)]));
        tell("too high", operate(id, &[(1, 32_767, 0)]));
        tell("no such", operate(id, &[(3, 1, 0)]));
        tell("none", operate(id, &[]));
        tell("too many", operate(id, &[(0, 0, 0); 501]));
        println!(
            "by this one: {}",
            libc::semctl(id, 1, libc::GETPID) == libc::getpid()
        );
        let mut all = [1u16, 2, 3];
        tell(
            "set all",
            libc::semctl(id, 0, libc::SETALL, all.as_mut_ptr()),
        );
        all = [0; 3];
        tell(
            "get all",
            libc::semctl(id, 0, libc::GETALL, all.as_mut_ptr()),
        );
        println!("{all:?}");
        tell_end(
            "undone",
            in_child(|| {
                tell("take", operate(id, &[(2, -2, UNDO), (0, 4, UNDO)]));
                println!("{} {}", value(id, 0), value(id, 2));
            }),
        );
        println!("{} {}", value(id, 0), value(id, 2));
        tell_end(
            "undone beyond the ends",
            in_child(|| {
                let changes = [(2, -2, UNDO), (2, 32_767 - 3, 0), (0, 4, UNDO), (0, -4, 0)];
                set(id, 2, 5);
                tell("to the ends", operate(id, &changes));
                println!("{} {}", value(id, 0), value(id, 2));
            }),
        );
        println!("{} {}", value(id, 0), value(id, 2));
        tell_end(
            "set since",
            in_child(|| {
                tell("add", operate(id, &[(0, 1, UNDO), (1, 1, UNDO)]));
                set(id, 0, 20);
                operate(id, &[(0, 3, UNDO)]);
                println!("{} {} {}", value(id, 0), value(id, 1), value(id, 2));
            }),
        );
        println!("{} {} {}", value(id, 0), value(id, 1), value(id, 2));
        tell_end(
            "all set since",
            in_child(|| {
                tell("add", operate(id, &[(0, 1, UNDO), (1, 1, UNDO)]));
                all = [10, 11, 12];
                libc::semctl(id, 0, libc::SETALL, all.as_mut_ptr());
            }),
        );
        println!("{} {} {}", value(id, 0), value(id, 1), value(id, 2));
        tell("remove", libc::semctl(id, 0, libc::IPC_RMID));
        tell("remove again", libc::semctl(id, 0, libc::IPC_RMID));
    }
}

unsafe fn waiting() {
    unsafe {
        let id = libc::semget(libc::IPC_PRIVATE, 2, 0o600);
        let child = libc::fork();
        if child == 0 {
            let first = operate(id, &[(0, -1, 0)]);
            let second = operate(id, &[(1, 0, 0)]);
            libc::_exit(10 + first + second);
        }
        set(id, 1, 1);
        while libc::semctl(id, 0, 14) != 1 {
            libc::sched_yield();
        }
        tell("give", operate(id, &[(0, 1, 0)]));
        while libc::semctl(id, 1, 15) != 1 {
            libc::sched_yield();
        }
        tell("take", operate(id, &[(1, -1, 0)]));
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end("who waited", status);
        let soon = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1000,
        };
        let mut take = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        tell(
            "in time",
            libc::syscall(libc::SYS_semtimedop, id, &mut take, 1, &soon),
        );
        let child = libc::fork();
        if child == 0 {
            let ended = operate(id, &[(0, -1, 0)]);
            libc::_exit((ended == -1 && *libc::__errno_location() == libc::EIDRM) as c_int);
        }
        while libc::semctl(id, 0, 14) != 1 {
            libc::sched_yield();
        }
        libc::semctl(id, 0, libc::IPC_RMID);
        libc::waitpid(child, &mut status, 0);
        tell_end("removed under it", status);
    }
}

unsafe fn open(name: &std::ffi::CStr, flags: c_int, attributes: *const [i64; 8]) -> c_int {
    unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, attributes) as c_int }
}

unsafe fn queues() {
    unsafe {
        let name = c"stile";
        let unlink = |name: &std::ffi::CStr| libc::syscall(libc::SYS_mq_unlink, name.as_ptr());
        tell("no queue", open(name, libc::O_RDWR, ptr::null()));
        tell("unlink none", unlink(name));
        tell(
            "a bad name",
            open(c"a/b", libc::O_CREAT | libc::O_RDWR, ptr::null()),
        );
        tell(
            "no messages",
            open(name, NEW_FILE, &[0, 0, 8, 0, 0, 0, 0, 0]),
        );
        let queue = open(name, NEW_FILE, &[0, 3, 8, 0, 0, 0, 0, 0]);
        tell_ok("a queue", queue >= 0);
        tell("again", open(name, NEW_FILE, ptr::null()));
        let mut attributes = [0i64; 8];
        let none = ptr::null::<[i64; 8]>();
        tell(
            "attributes",
            libc::syscall(libc::SYS_mq_getsetattr, queue, none, &mut attributes),
        );
        println!("{:?}", &attributes[..4]);
        let send = |text: &str, priority: u32, timeout: *const libc::timespec| {
            let (at, len) = (text.as_ptr(), text.len());
            libc::syscall(libc::SYS_mq_timedsend, queue, at, len, priority, timeout)
        };
        let receive = |len: usize, timeout: *const libc::timespec| {
            let (mut text, mut priority) = ([0u8; 8], 0u32);
            let to = text.as_mut_ptr();
            let got = libc::syscall(
                libc::SYS_mq_timedreceive,
                queue,
                to,
                len,
                &mut priority,
                timeout,
            );
            match usize::try_from(got) {
                Ok(len) => println!("{priority}: {}", text[..len].escape_ascii()),
                Err(_) => tell("receive", got),
            }
        };
        let past = libc::timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        tell("too long", send("123456789", 0, ptr::null()));
        tell("too urgent", send("x", 32_768, ptr::null()));
        for (text, priority) in [("low", 1), ("high", 9), ("low too", 1)] {
            tell("send", send(text, priority, ptr::null()));
        }
        tell("full", send("x", 0, &past));
        receive(7, ptr::null());
        (0..3).for_each(|_| receive(8, ptr::null()));
        receive(8, &past);
        notices(queue, &send, &receive);
        tell("unlink", unlink(name));
        tell("still there", send("y", 0, ptr::null()));
        libc::close(queue);
        tell("closed", send("y", 0, ptr::null()));
        tell(
            "no queue",
            libc::syscall(libc::SYS_mq_timedsend, 0, name.as_ptr(), 1, 0, none),
        );
    }
}

const NEW_FILE: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;

unsafe fn notices(
    queue: c_int,
    send: &dyn Fn(&str, u32, *const libc::timespec) -> c_long,
    receive: &dyn Fn(usize, *const libc::timespec),
) {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_signo = libc::SIGUSR1;
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_value.sival_ptr = 42 as *mut libc::c_void;
        let notify =
            |event: *const libc::sigevent| libc::syscall(libc::SYS_mq_notify, queue, event);
        tell("notify", notify(&event));
        tell("notify again", notify(&event));
        send("told", 2, ptr::null());
        let mut info: libc::siginfo_t = mem::zeroed();
        libc::sigwaitinfo(&set, &mut info);
        println!(
            "signal {} code {} value {}",
            info.si_signo,
            info.si_code,
            info.si_value().sival_ptr as usize
        );
        receive(8, ptr::null());
        tell("once only", notify(&event));
        tell("no more", notify(ptr::null()));
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0);
        let mut cookie = [7u8; 32];
        event.sigev_notify = libc::SIGEV_THREAD;
        event.sigev_value.sival_ptr = (&raw mut cookie).cast();
        event.sigev_signo = queue;
        tell("by no socket", notify(&event));
        event.sigev_signo = socket;
        let mut told = || {
            let (at, len) = ((&raw mut cookie).cast(), cookie.len());
            let count = libc::recv(socket, at, len, libc::MSG_DONTWAIT);
            println!("the socket gives {count}: {} {}", cookie[0], cookie[31]);
        };
        tell("by a socket", notify(&event));
        send("told", 2, ptr::null());
        receive(8, ptr::null());
        told();
        tell("by a socket again", notify(&event));
        tell("no more", notify(ptr::null()));
        told();
        libc::close(socket);
        event.sigev_notify = libc::SIGEV_NONE;
        tell("nothing", notify(&event));
        libc::close(libc::dup(queue));
        tell("after a close", notify(&event));
        tell("no more", notify(ptr::null()));
        let mut poll = libc::pollfd {
            fd: queue,
            events: libc::POLLIN | libc::POLLOUT,
            revents: 0,
        };
        libc::poll(&mut poll, 1, 0);
        println!("ready: {}", poll.revents);
        let mut attributes = [libc::O_NONBLOCK as i64, 0, 0, 0, 0, 0, 0, 0];
        let old = ptr::null_mut::<[i64; 8]>();
        tell(
            "no waiting",
            libc::syscall(libc::SYS_mq_getsetattr, queue, &attributes, old),
        );
        receive(8, ptr::null());
        attributes[0] = 0;
        libc::syscall(libc::SYS_mq_getsetattr, queue, &attributes, old);
    }
}
