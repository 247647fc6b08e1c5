//! Objects that nest deeply and repeatedly: epoll sets and keyrings.

use std::ptr;

use libc::{c_int, c_long};

use super::USER;
use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    let limit = libc::rlimit {
        rlim_cur: 4096,
        rlim_max: 4096,
    };
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        tell_end("a chain of sets", in_child(|| as_user(chain)));
        tell_end("circles", in_child(|| as_user(circles)));
        tell_end("many ways", in_child(|| as_user(fan)));
        tell_end("ways up", in_child(|| as_user(ways)));
        tell_end("not ready any more", in_child(|| as_user(stale)));
        tell_end("keyrings", in_child(|| as_user(keyrings)));
        tell_end("a chain of keyrings", in_child(|| as_user(keychain)));
    }
}

fn as_user(f: unsafe fn()) {
    // SAFETY: the child has one thread, and the parts are safe to call from it.
    unsafe {
        libc::setgid(USER);
        libc::setuid(USER);
        f();
    }
}

unsafe fn add(set: c_int, member: c_int) -> c_long {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, member, &mut event).into() }
}

unsafe fn is_ready(fd: c_int) -> c_int {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    unsafe { libc::poll(&mut poll, 1, 0) }
}

/// Each set is added to the one before; it has nothing below it yet.
unsafe fn chain() {
    unsafe {
        let top = libc::epoll_create1(0);
        let (mut last, mut added) = (top, 0);
        for _ in 0..3000 {
            let next = libc::epoll_create1(0);
            if add(last, next) != 0 {
                break;
            }
            (last, added) = (next, added + 1);
        }
        println!("{added} added");
        let event = libc::eventfd(1, 0);
        tell("at the bottom", add(last, event));
        println!("ready {}", is_ready(top));
    }
}

/// Two sets that are added to each other at once.
unsafe fn circles() {
    unsafe {
        let mut both = 0;
        for _ in 0..200 {
            let sets = [libc::epoll_create1(0), libc::epoll_create1(0)];
            let results = std::thread::scope(|scope| {
                let other = scope.spawn(|| add(sets[0], sets[1]));
                let own = add(sets[1], sets[0]);
                [own, other.join().expect("a result")]
            });
            both += c_int::from(results == [0, 0]);
            is_ready(sets[0]);
            libc::close(sets[0]);
            libc::close(sets[1]);
        }
        println!("{both} circles");
        let sets = [(); 3].map(|()| libc::epoll_create1(0));
        tell("first", add(sets[0], sets[1]));
        tell("second", add(sets[1], sets[2]));
        tell("back", add(sets[2], sets[0]));
        tell("itself", add(sets[0], sets[0]));
    }
}

/// Five levels of sets, with two hundred paths from each to the next.
unsafe fn fan() {
    unsafe {
        let sets = [(); 5].map(|()| libc::epoll_create1(0));
        for pair in sets.windows(2) {
            for _ in 0..200 {
                if add(pair[0], libc::dup(pair[1])) != 0 {
                    println!("refused");
                }
            }
        }
        let top = libc::epoll_create1(0);
        tell("above four", add(top, sets[1]));
        tell("above five", add(top, sets[0]));
    }
}

/// The number of paths that may lead up from a file.
unsafe fn ways() {
    unsafe {
        for nests in 1..5 {
            let event = libc::eventfd(0, 0);
            let lowest = libc::epoll_create1(0);
            let mut level = lowest;
            for _ in 1..nests {
                let above = libc::epoll_create1(0);
                add(above, level);
                level = above;
            }
            tell("the file", add(lowest, event));
            let mut count = 0;
            while count < 1200 && add(libc::epoll_create1(0), level) == 0 {
                count += 1;
            }
            println!("{nests} between: {count} ways");
            for fd in event..4096 {
                libc::close(fd);
            }
        }
    }
}

/// A file that was ready once is on the ready list of every set above it.
unsafe fn stale() {
    unsafe {
        let event = libc::eventfd(0, 0);
        let mut level = event;
        for _ in 0..3 {
            let set = libc::epoll_create1(0);
            for _ in 0..4 {
                add(set, libc::dup(level));
            }
            level = set;
        }
        for _ in 0..3 {
            let mut one = 1u64;
            libc::write(event, (&raw const one).cast(), 8);
            let ready = is_ready(level);
            libc::read(event, (&raw mut one).cast(), 8);
            println!("ready {ready}, then {}", is_ready(level));
        }
    }
}

const SESSION: c_int = -3;

unsafe fn ring(name: &str) -> c_long {
    let name = format!("{name}\0");
    let (kind, none) = (c"keyring".as_ptr(), ptr::null::<u8>());
    unsafe { libc::syscall(libc::SYS_add_key, kind, name.as_ptr(), none, 0, SESSION) }
}

unsafe fn control(operation: c_int, a: c_long, b: c_long) -> c_long {
    unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, 0, 0) }
}

const JOIN: c_int = 1;
const LINK: c_int = 8;
const UNLINK: c_int = 9;

/// Six levels of keyrings, each linked to all of the next.
unsafe fn keyrings() {
    unsafe {
        control(JOIN, 0, 0);
        let levels: Vec<Vec<c_long>> = (0..6)
            .map(|level| (0..6).map(|at| ring(&format!("{level} {at}"))).collect())
            .collect();
        let mut refused = 0;
        for pair in levels.windows(2).rev() {
            for &above in &pair[0] {
                for &below in &pair[1] {
                    refused += c_int::from(control(LINK, below, above) != 0);
                }
            }
        }
        println!("{refused} refused");
        let (kind, name) = (c"user".as_ptr(), c"nothing".as_ptr());
        let none = ptr::null::<u8>();
        tell(
            "search",
            libc::syscall(libc::SYS_request_key, kind, name, none, 0),
        );
        tell("a circle", control(LINK, levels[0][0], levels[5][0]));
    }
}

/// A chain of keyrings, built from its head, which is released at the end.
unsafe fn keychain() {
    unsafe {
        control(JOIN, 0, 0);
        let rings: Vec<c_long> = (0..150).map(|at| ring(&at.to_string())).collect();
        let mut refused = 0;
        for pair in rings.windows(2) {
            refused += c_int::from(control(LINK, pair[1], pair[0]) != 0);
        }
        println!("{refused} refused");
        for &ring in rings.iter().rev() {
            control(UNLINK, ring, SESSION.into());
        }
    }
}
