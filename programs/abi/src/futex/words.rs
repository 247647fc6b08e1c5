//! The identity of a futex: the waits and wakes that match, and invalid places of a word.

use super::*;

const PRIVATE: i32 = 128;
const PAGE: usize = 1 << 16;
const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A page with a word in it; `file` is -1 for anonymous memory.
unsafe fn page(rights: i32, flags: i32, file: i32) -> &'static AtomicU32 {
    unsafe {
        let none = if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
        let place = libc::mmap(ptr::null_mut(), PAGE, rights, flags | none, file, 0);
        assert_ne!(place, libc::MAP_FAILED);
        &*place.cast()
    }
}

unsafe fn protect(word: &AtomicU32, rights: i32) {
    unsafe { libc::mprotect(word.as_ptr().cast(), PAGE, rights) };
}

unsafe fn file() -> i32 {
    unsafe {
        let file = libc::memfd_create(c"word".as_ptr(), 0);
        libc::ftruncate(file, PAGE as i64);
        file
    }
}

/// Errors of each operation on words in all kinds of mappings.
pub unsafe fn in_mappings() {
    unsafe {
        let file = file();
        let (shared, private) = (libc::MAP_SHARED, libc::MAP_PRIVATE);
        let written = page(BOTH, private, file);
        written.store(0, SeqCst);
        for (what, word, rights) in [
            ("anonymous", page(BOTH, private, -1), BOTH),
            ("anonymous, to be read", page(BOTH, private, -1), READ),
            ("shared", page(BOTH, shared, -1), BOTH),
            ("shared, to be read", page(BOTH, shared, -1), READ),
            ("of a file", page(BOTH, private, file), BOTH),
            ("of a file, to be read", page(BOTH, private, file), READ),
            ("of a file, written, to be read", written, READ),
            ("a file's, to be read", page(BOTH, shared, file), READ),
        ] {
            for flag in [0, PRIVATE] {
                errors(what, word, rights, flag);
            }
        }
        let never = page(READ, private, -1);
        tell(
            "never written",
            futex(never, libc::FUTEX_WAKE, 1, ptr::null()),
        );
        let past = page(BOTH, shared, file);
        libc::ftruncate(file, 0);
        tell("cut off", futex(past, libc::FUTEX_WAKE, 1, ptr::null()));
        tell("cut off, a lock", futex(past, LOCK_PI, 0, &PAST));
        libc::close(file);
    }
}

/// Prints the error of each operation on `word`, whose page has `rights` during the calls.
unsafe fn errors(what: &str, word: &AtomicU32, rights: i32, flag: i32) {
    let other = AtomicU32::new(0);
    let own = unsafe { libc::gettid() } as u32;
    let one = ptr::without_provenance(1);
    let none = ptr::null();
    let parent = unsafe { libc::getppid() } as u32;
    let mut said = String::new();
    let mut call = |name: &str, value: u32, work: &dyn Fn() -> i64| unsafe {
        protect(word, BOTH);
        if word.load(SeqCst) != value {
            word.store(value, SeqCst);
        }
        protect(word, rights);
        let result = work();
        let text = match result {
            0.. => result.to_string(),
            _ => crate::error().to_owned(),
        };
        said += &format!(" {name} {text}");
    };
    let first = |operation: i32, value, timeout| unsafe {
        futex6(word, operation | flag, value, timeout, &other, 0)
    };
    let second = |operation: i32, value, third| unsafe {
        futex6(&other, operation | flag, value, one, word, third)
    };
    call("wait", 0, &|| first(libc::FUTEX_WAIT, 1, none));
    call("wake", 0, &|| first(libc::FUTEX_WAKE, 1, none));
    call("requeue", 0, &|| first(libc::FUTEX_REQUEUE, 1, one));
    call("to", 0, &|| second(libc::FUTEX_REQUEUE, 1, 0));
    call("change", 0, &|| second(libc::FUTEX_WAKE_OP, 1, 0));
    call("lock", 0, &|| first(LOCK_PI, 0, &PAST));
    call("held", parent, &|| first(LOCK_PI, 0, &PAST));
    call("waited", parent | WAITERS, &|| first(LOCK_PI, 0, &PAST));
    call("own", own, &|| first(LOCK_PI, 0, &PAST));
    call("try", 0, &|| first(TRYLOCK_PI, 0, none));
    call("try held", parent | WAITERS, &|| first(TRYLOCK_PI, 0, none));
    call("unlock", own, &|| first(UNLOCK_PI, 0, none));
    call("another's", parent, &|| first(UNLOCK_PI, 0, none));
    call("wait for", 0, &|| unsafe {
        futex6(&other, WAIT_REQUEUE_PI | flag, 1, &PAST, word, 0)
    });
    call("to the lock", 0, &|| second(CMP_REQUEUE_PI, 1, 0));
    unsafe { protect(word, BOTH) };
    let flag = if flag == 0 { "" } else { ", private" };
    println!("{what}{flag}:{said}");
}

/// The wakes that match a wait, by FUTEX_PRIVATE_FLAG in both.
pub unsafe fn met() {
    unsafe {
        let (shared, private) = (libc::MAP_SHARED, libc::MAP_PRIVATE);
        let file = file();
        let fresh = page(BOTH, private, -1);
        let both = page(BOTH, shared, -1);
        let written = page(BOTH, private, file);
        for (what, at, from) in [
            ("anonymous", fresh, fresh),
            ("shared", both, both),
            (
                "a file's",
                page(BOTH, shared, file),
                page(READ, shared, file),
            ),
            ("a copy", written, page(BOTH, shared, file)),
            (
                "not copied",
                page(READ, private, file),
                page(BOTH, shared, file),
            ),
            (
                "of two copies",
                page(READ, private, file),
                page(READ, private, file),
            ),
        ] {
            for (first, then) in [(0, 0), (0, PRIVATE), (PRIVATE, 0), (PRIVATE, PRIVATE)] {
                let woken = woken(at, first, from, then);
                let text = |flag| if flag == 0 { "any" } else { "private" };
                println!("{what}: {} by {}: {woken}", text(first), text(then));
            }
        }
        libc::close(file);
    }
}

/// Waits at `at`, and wakes at `from`; returns how many that woke. A waiter left over is woken.
unsafe fn woken(at: &AtomicU32, flag: i32, from: &AtomicU32, other: i32) -> i64 {
    let waiter = AtomicU32::new(0);
    let wait = || unsafe {
        waiter.store(libc::gettid() as u32, SeqCst);
        futex(at, libc::FUTEX_WAIT | flag, at.load(SeqCst), ptr::null())
    };
    let wake = |word: &AtomicU32, flag: i32| unsafe {
        futex(word, libc::FUTEX_WAKE | flag, 1, ptr::null())
    };
    thread::scope(|scope| {
        let waits = scope.spawn(wait);
        while waiter.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let number = waiter.load(SeqCst);
        await_call(number);
        let woken = wake(from, other);
        while woken != 1 && wake(at, flag) == 0 {
            thread::yield_now();
        }
        assert_eq!(waits.join().unwrap(), 0);
        woken
    })
}
