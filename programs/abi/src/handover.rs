//! Hand-over of semaphores and messages: a thread that changes a set or a queue completes the
//! waiting operations, in order, before its call returns, and does not wake others.

use std::mem;
use std::ptr;

use libc::{IPC_NOWAIT, IPC_PRIVATE, IPC_RMID, c_int, c_long, pid_t};

use crate::awaited::{crowd, end, waiter};
use crate::doing::await_state;
use crate::tell;

const UNDO: c_int = 0x1000;
const EXCEPT: c_int = 0o20000;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by
    // _exit.
    unsafe {
        one_of_many();
        semaphores();
        zeros_first();
        together();
        receivers();
        senders();
        signals();
    }
}

fn failed(result: isize) -> c_int {
    match result {
        // SAFETY: the pointer is to this thread's variable.
        -1 => 100 + unsafe { *libc::__errno_location() },
        result => result as c_int,
    }
}

unsafe fn operate(set: c_int, operations: &[(u16, i16, c_int)]) -> c_int {
    let operation = |&(sem_num, sem_op, flags): &(u16, i16, c_int)| libc::sembuf {
        sem_num,
        sem_op,
        sem_flg: flags as i16,
    };
    let mut raw: Vec<_> = operations.iter().map(operation).collect();
    failed(unsafe { libc::semop(set, raw.as_mut_ptr(), raw.len()) } as isize)
}

/// Prints the values, and the processes that changed them last.
unsafe fn show(what: &str, set: c_int, who: &[(&str, pid_t)]) {
    let ask = |at, command| unsafe { libc::semctl(set, at, command) };
    let name = |pid| {
        let known = who.iter().find(|(_, other)| *other == pid);
        known.map_or("parent", |(name, _)| *name)
    };
    let each = [0, 1, 2].map(|at| {
        let pid = ask(at, libc::GETPID);
        let waiting = [libc::GETNCNT, libc::GETZCNT].map(|command| ask(at, command));
        format!("{} by {} {waiting:?}", ask(at, libc::GETVAL), name(pid))
    });
    println!("{what}: {}", each.join(", "));
}

#[repr(C)]
struct Message {
    kind: c_long,
    text: [u8; 4096],
}

unsafe fn send(queue: c_int, kind: c_long, len: usize, flags: c_int) -> c_int {
    let message = Message {
        kind,
        text: [7; 4096],
    };
    failed(unsafe { libc::msgsnd(queue, (&raw const message).cast(), len, flags) } as isize)
}

/// Ten times the type plus the length; or the error.
unsafe fn receive(queue: c_int, room: usize, wanted: c_long, flags: c_int) -> c_int {
    let mut message: Message = unsafe { mem::zeroed() };
    let to = (&raw mut message).cast();
    match failed(unsafe { libc::msgrcv(queue, to, room, wanted, flags) }) {
        error @ 100.. => error,
        len => message.kind as c_int * 10 + len,
    }
}

unsafe fn count(queue: c_int) -> u64 {
    unsafe {
        let mut status: libc::msqid_ds = mem::zeroed();
        libc::msgctl(queue, libc::IPC_STAT, &mut status);
        status.msg_qnum as _
    }
}

/// One of several waiters continues, and the others sleep on.
unsafe fn one_of_many() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        let take = || operate(set, &[(0, -1, 0)]);
        crowd("one", 1, take, || _ = operate(set, &[(0, 1, 0)]));
        crowd("two", 2, take, || _ = operate(set, &[(0, 2, 0)]));
        let set_value = || _ = libc::semctl(set, 0, libc::SETVAL, 1);
        crowd("set", 1, take, set_value);
        operate(set, &[(1, 1, 0)]);
        let zero = || operate(set, &[(1, 0, 0), (1, 1, 0)]);
        crowd("zero, and up", 1, zero, || _ = operate(set, &[(1, -1, 0)]));
        let both = || operate(set, &[(0, -1, 0), (2, -1, 0)]);
        operate(set, &[(0, 3, 0)]);
        crowd("the second", 1, both, || _ = operate(set, &[(2, 1, 0)]));
        libc::semctl(set, 0, IPC_RMID);

        let queue = libc::msgget(IPC_PRIVATE, 0o600);
        let any = || receive(queue, 8, 0, 0);
        crowd("a message", 1, any, || _ = send(queue, 3, 1, 0));
        let other = || receive(queue, 8, 3, EXCEPT);
        crowd("another", 1, other, || _ = send(queue, 4, 1, 0));
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
    }
}

/// When the call returns, the first waiters have taken the semaphore's new value.
unsafe fn semaphores() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        let one = waiter(|| operate(set, &[(0, -2, 0)]));
        let two = waiter(|| operate(set, &[(0, -1, 0)]));
        let three = waiter(|| operate(set, &[(0, -1, UNDO)]));
        let who = [("one", one), ("two", two), ("three", three)];
        show("three wait", set, &who);
        tell("give", operate(set, &[(0, 1, 0)]));
        show("one less", set, &who);
        end("two", two);
        tell("give", operate(set, &[(0, 2, 0)]));
        show("the first", set, &who);
        end("one", one);
        libc::semctl(set, 0, libc::SETVAL, 1);
        end("three", three);
        show("undone", set, &who);
        let all = waiter(|| operate(set, &[(0, -1, 0), (1, -2, 0)]));
        let who = [("all", all)];
        libc::semctl(set, 0, libc::SETALL, [1u16, 2, 3].as_ptr());
        show("set all", set, &who);
        end("all", all);
        // The end of a child undoes its change.
        let again = waiter(|| operate(set, &[(2, -4, 0)]));
        let child = libc::fork();
        if child == 0 {
            operate(set, &[(2, -1, UNDO), (2, 2, 0)]);
            libc::_exit(0);
        }
        end("child", child);
        end("again", again);
        let who = [("again", again), ("child", child)];
        show("by its end", set, &who);
        libc::semctl(set, 0, IPC_RMID);
    }
}

/// Waiters that only wait for zero come before those that also change a value.
unsafe fn zeros_first() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        operate(set, &[(0, 1, 0)]);
        let changes = waiter(|| operate(set, &[(0, 0, 0), (0, 5, 0)]));
        let waits = waiter(|| operate(set, &[(0, 0, 0)]));
        let who = [("changes", changes), ("waits", waits)];
        show("one", set, &who);
        operate(set, &[(0, -1, 0)]);
        show("zero", set, &who);
        end("changes", changes);
        end("waits", waits);
        // Each waiter releases the next.
        libc::semctl(set, 0, libc::SETVAL, 0);
        let third = waiter(|| operate(set, &[(2, -1, 0)]));
        let second = waiter(|| operate(set, &[(1, -1, 0), (2, 1, 0)]));
        let first = waiter(|| operate(set, &[(0, -1, 0), (1, 1, 0)]));
        let who = [("first", first), ("second", second), ("third", third)];
        operate(set, &[(0, 1, 0)]);
        show("a chain", set, &who);
        who.iter().for_each(|(name, child)| end(name, *child));
        libc::semctl(set, 0, IPC_RMID);
    }
}

/// Several operations in one call, also on one semaphore.
unsafe fn together() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        let twice = waiter(|| operate(set, &[(0, -1, 0), (0, -2, 0)]));
        let up = waiter(|| operate(set, &[(1, 1, 0), (1, -3, 0)]));
        let who = [("twice", twice), ("up", up)];
        show("two wait", set, &who);
        operate(set, &[(0, 2, 0), (1, 1, 0)]);
        show("not yet", set, &who);
        operate(set, &[(0, 1, 0), (1, 1, 0)]);
        show("now", set, &who);
        end("twice", twice);
        end("up", up);
        let high = waiter(|| operate(set, &[(2, 32767, 0), (1, -1, 0)]));
        operate(set, &[(2, 1, 0)]);
        operate(set, &[(1, 1, 0)]);
        end("too high", high);
        // Waiters are checked in the order of their arrival, whatever they wait for.
        let wants = [0, 1].map(|at| waiter(|| operate(set, &[(at, -2, 0), (2, -2, 0)])));
        libc::semctl(set, 0, libc::SETALL, [0u16, 0, 0].as_ptr());
        operate(set, &[(1, 2, 0), (0, 2, 0), (2, 2, 0)]);
        let who = [("one", wants[0]), ("other", wants[1])];
        show("the first", set, &who);
        end("one", wants[0]);
        libc::semctl(set, 0, IPC_RMID);
        end("other", wants[1]);
    }
}

/// A message goes to the first receiver that waits for its type and has room for it.
unsafe fn receivers() {
    unsafe {
        let queue = libc::msgget(IPC_PRIVATE, 0o600);
        let short = waiter(|| receive(queue, 2, 0, 0));
        let cuts = waiter(|| receive(queue, 2, 5, libc::MSG_NOERROR));
        let other = waiter(|| receive(queue, 8, 5, EXCEPT));
        let lowest = waiter(|| receive(queue, 8, -4, 0));
        let four = waiter(|| receive(queue, 8, 4, 0));
        for (kind, len) in [(4, 4), (4, 3), (5, 4), (4, 1), (9, 1)] {
            tell(
                &format!("send {len} of {kind}"),
                send(queue, kind, len, IPC_NOWAIT),
            );
            println!("{} left", count(queue));
        }
        end("short", short);
        end("cuts", cuts);
        end("other", other);
        end("lowest", lowest);
        end("four", four);
        println!("{}", receive(queue, 8, 0, IPC_NOWAIT));
        let gone = [(); 3].map(|()| waiter(|| receive(queue, 8, 0, 0)));
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
        gone.iter().for_each(|child| end("gone", *child));
    }
}

/// A receiver that makes room releases the first sender whose message fits.
unsafe fn senders() {
    unsafe {
        let queue = libc::msgget(IPC_PRIVATE, 0o666);
        (0..4).for_each(|_| _ = send(queue, 1, 4096, 0));
        let shut = waiter(|| {
            libc::setuid(1000);
            send(queue, 5, 4096, 0)
        });
        let long = waiter(|| send(queue, 2, 4096, 0));
        let short = waiter(|| send(queue, 3, 1, 0));
        let mut status: libc::msqid_ds = mem::zeroed();
        libc::msgctl(queue, libc::IPC_STAT, &mut status);
        status.msg_perm.mode = 0o600;
        tell(
            "no room yet",
            libc::msgctl(queue, libc::IPC_SET, &mut status),
        );
        status.msg_qbytes = 16385;
        tell("a byte", libc::msgctl(queue, libc::IPC_SET, &mut status));
        end("short", short);
        println!("{}", receive(queue, 4096, 1, 0));
        end("shut out", shut);
        end("long", long);
        println!("{} left", count(queue));
        let gone = [(); 3].map(|()| waiter(|| send(queue, 4, 4096, 0)));
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
        gone.iter().for_each(|child| end("gone", *child));
    }
}

/// A stop and continue interrupts semop(2), and restarts msgrcv(2).
unsafe fn signals() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        let queue = libc::msgget(IPC_PRIVATE, 0o600);
        let stop = |child| {
            libc::kill(child, libc::SIGSTOP);
            libc::waitpid(child, ptr::null_mut(), libc::WUNTRACED);
            libc::kill(child, libc::SIGCONT);
        };
        let semaphore = waiter(|| operate(set, &[(0, -1, 0)]));
        stop(semaphore);
        end("semop", semaphore);
        show("none waits", set, &[]);
        let message = waiter(|| receive(queue, 8, 0, 0));
        stop(message);
        await_state(message, "S");
        send(queue, 3, 1, 0);
        end("msgrcv", message);
        extern "C" fn nothing(_: c_int) {}
        for flags in [0, libc::SA_RESTART] {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = flags;
            libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
            let waits: [&dyn Fn() -> c_int; 2] =
                [&|| operate(set, &[(0, -1, 0)]), &|| receive(queue, 8, 0, 0)];
            for wait in waits {
                let child = waiter(wait);
                libc::kill(child, libc::SIGUSR1);
                end("a handler", child);
            }
        }
        libc::semctl(set, 0, IPC_RMID);
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
    }
}
