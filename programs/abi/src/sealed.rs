//! mseal(2): operations on sealed memory.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::{hint, ptr, thread};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_long,
};

use crate::{in_child, smaps, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const BOTH: c_int = PROT_READ | PROT_WRITE;
const LARGE: usize = 32 << 20;
const SEAL: c_long = 462;

/// Runs this part.
pub fn run() {
    // SAFETY: the sealed memory was just mapped, and nobody else uses it.
    unsafe {
        arguments();
        tell_end("kept", in_child(|| kept()));
        tell_end("advised", in_child(|| advised()));
        tell_end("the heap", in_child(|| heap()));
        tell_end("large", in_child(|| large()));
        tell_end("attached", in_child(|| attached()));
        tell_end("raced", in_child(|| raced()));
    }
}

unsafe fn map(len: usize, rights: c_int, flags: c_int) -> *mut u8 {
    let flags = flags | MAP_ANONYMOUS;
    unsafe {
        // Surrounds it by other pages, so that it is a mapping of its own.
        let around = len + 2 * PAGE;
        let at = libc::mmap(
            ptr::null_mut(),
            around,
            PROT_EXEC,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        );
        let at = at.wrapping_byte_add(PAGE);
        libc::mmap(at, len, rights, flags | MAP_FIXED, -1, 0).cast()
    }
}

unsafe fn seal(what: &str, at: *mut u8, len: usize) {
    unsafe { tell(what, libc::syscall(SEAL, at, len, 0)) };
}

/// Whether smaps shows the mapping at `at` as sealed.
fn is_sealed(at: *mut u8) -> bool {
    smaps(at, "VmFlags:").split(' ').any(|flag| flag == "sl")
}

unsafe fn arguments() {
    unsafe {
        let at = map(4 * PAGE, BOTH, MAP_PRIVATE);
        tell("a flag", libc::syscall(SEAL, at, PAGE, 1));
        seal("between pages", at.add(8), PAGE);
        seal("of no length", at, 0);
        seal("too long", at, usize::MAX);
        seal("around all", at, usize::MAX - PAGE + 1);
        libc::munmap(at.add(2 * PAGE).cast(), PAGE);
        seal("with a hole", at, 4 * PAGE);
        tell("which seals nothing", libc::munmap(at.cast(), 4 * PAGE));
        seal("nowhere", at, PAGE);
    }
}

/// Sealed memory keeps its address and its rights.
unsafe fn kept() {
    unsafe {
        let at = map(6 * PAGE, BOTH, MAP_PRIVATE);
        at.add(2 * PAGE).write(7);
        seal("seal", at.add(2 * PAGE), 2 * PAGE - 100);
        seal("again", at.add(2 * PAGE), 2 * PAGE);
        let sealed = at.add(2 * PAGE);
        let told = |at| smaps(at, "Size:") + if is_sealed(at) { " sealed" } else { "" };
        println!("{}, {}, {}", told(at), told(sealed), told(at.add(4 * PAGE)));
        for (what, from, pages) in [
            ("all", 0, 6),
            ("it alone", 2, 2),
            ("its first page", 2, 1),
            ("its last page", 3, 1),
            ("from before it", 1, 2),
            ("to behind it", 3, 3),
        ] {
            let (place, len) = (at.add(from * PAGE).cast(), pages * PAGE);
            tell(&format!("munmap of {what}"), libc::munmap(place, len));
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            let mapped = libc::mmap(place, len, BOTH, flags, -1, 0);
            tell_ok(&format!("mmap over {what}"), mapped != MAP_FAILED);
        }
        let place = sealed.cast();
        tell("mprotect", libc::mprotect(place, PAGE, PROT_READ));
        tell("as it is", libc::mprotect(place, PAGE, BOTH));
        let below = at.cast();
        tell("from below", libc::mprotect(below, 4 * PAGE, PROT_NONE));
        tell("changed below", smaps(at, "VmFlags:").starts_with("rd"));
        let moved = |what: &str, old, had: usize, len: usize, flags, target: *mut u8| {
            let moved = libc::mremap(old, had * PAGE, len * PAGE, flags, target);
            tell_ok(what, moved != MAP_FAILED);
        };
        moved("shorter", place, 2, 1, 0, at);
        moved("as long", place, 2, 2, 0, at);
        moved("longer", place, 2, 4, MREMAP_MAYMOVE, at);
        moved("too long", place, 3, 4, MREMAP_MAYMOVE, at);
        moved("a second one", place, 0, 1, MREMAP_MAYMOVE, at);
        let other = map(PAGE, BOTH, MAP_PRIVATE);
        let to = MREMAP_MAYMOVE | MREMAP_FIXED;
        moved("over it", other.cast(), 1, 1, to, sealed);
        tell("mlock", libc::mlock(place, PAGE));
        tell("munlock", libc::munlock(place, PAGE));
        tell("what it held", sealed.read());
        tell("munmap before it", libc::munmap(at.cast(), 2 * PAGE));
        tell_end(
            "a child",
            in_child(|| {
                tell("has it sealed", is_sealed(sealed));
                tell("munmap", libc::munmap(place, PAGE));
            }),
        );
    }
}

/// Advice that discards data which could not be overwritten.
unsafe fn advised() {
    unsafe {
        let kinds = [
            ("private, written", BOTH, MAP_PRIVATE),
            ("private, read", PROT_READ, MAP_PRIVATE),
            ("private, neither", PROT_NONE, MAP_PRIVATE),
            ("shared, read", PROT_READ, MAP_SHARED),
        ];
        // MADV_DONTNEED_LOCKED is 24; DODUMP and WILLNEED discard nothing.
        let advices = [4, 8, 9, 10, 11, 18, 19, 24, 17, 3];
        for (what, rights, flags) in kinds {
            for advice in advices {
                let at = map(2 * PAGE, rights, flags);
                libc::syscall(SEAL, at, PAGE, 0);
                let advised = libc::madvise(at.cast(), 2 * PAGE, advice);
                tell(&format!("{what}: advice {advice}"), advised);
            }
        }
    }
}

/// brk(2) down over a sealed part.
unsafe fn heap() {
    unsafe {
        let end = libc::syscall(libc::SYS_brk, 0) as usize;
        let start = end.next_multiple_of(PAGE);
        let at: *mut u8 = ptr::with_exposed_provenance_mut(start);
        let set = |what: &str, end: usize| {
            let now = libc::syscall(libc::SYS_brk, end) as usize;
            println!("{what}: at {} pages", (now.wrapping_sub(start)) / PAGE);
        };
        set("four pages more", start + 4 * PAGE);
        seal("the second", at.add(PAGE), PAGE);
        set("two fewer", start + 2 * PAGE);
        set("none", start);
        set("two more", start + 4 * PAGE);
    }
}

/// Operations on large ranges, which are done in parts.
unsafe fn large() {
    unsafe {
        let at = map(LARGE, BOTH, MAP_PRIVATE);
        at.add(PAGE).write(5);
        let last = at.add(LARGE - PAGE);
        seal("the last page", last, PAGE);
        tell("munmap", libc::munmap(at.cast(), LARGE));
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        let mapped = libc::mmap(at.cast(), LARGE, BOTH, flags, -1, 0);
        tell_ok("mmap over it", mapped != MAP_FAILED);
        tell("mprotect", libc::mprotect(at.cast(), LARGE, PROT_READ));
        let moved = libc::mremap(last.cast(), PAGE, LARGE, MREMAP_MAYMOVE);
        tell_ok("mremap", moved != MAP_FAILED);
        tell("what it held", at.add(PAGE).read());
        seal("all", at, LARGE);
        tell("munmap of a part", libc::munmap(at.cast(), LARGE / 2));
    }
}

/// A sealed attachment of a segment stays, although shmdt reports success.
unsafe fn attached() {
    unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, PAGE, 0o600);
        let at: *mut u8 = libc::shmat(segment, ptr::null(), 0).cast();
        at.write(9);
        seal("an attachment", at, PAGE);
        tell("shmdt", libc::shmdt(at.cast()));
        tell("it holds", at.read());
        tell("shmdt again", libc::shmdt(at.cast()));
        libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
    }
}

/// Another thread unmaps or discards memory that this one seals: afterwards nothing changes.
unsafe fn raced() {
    const ROUNDS: usize = 300;
    // So far apart that each touched page is in another page table.
    const STEP: usize = 2 << 20;
    const TOUCHED: usize = 64;
    let race = |what: &str, len: usize, removes: bool, act: fn(*mut u8, usize) -> c_int| unsafe {
        let rights = if removes { BOTH } else { PROT_READ };
        let (mut changed, mut torn) = (0i64, 0i64);
        for round in 0..ROUNDS {
            let at = map(len, BOTH, MAP_PRIVATE);
            libc::madvise(at.cast(), len, libc::MADV_NOHUGEPAGE);
            let places: Vec<_> = (0..len).step_by(STEP).map(|place| at.add(place)).collect();
            places.iter().for_each(|place| place.write(5));
            libc::mprotect(at.cast(), len, rights);
            let (ready, place) = (AtomicUsize::new(0), at.expose_provenance());
            let acted = thread::scope(|scope| {
                let other = scope.spawn(|| {
                    ready.store(1, Release);
                    act(ptr::with_exposed_provenance_mut(place), len)
                });
                while ready.load(Acquire) == 0 {
                    hint::spin_loop();
                }
                (0..round * 40).for_each(|_| hint::spin_loop());
                let sealed = libc::syscall(SEAL, at, len, 0) == 0;
                let held = |place: &*mut u8| place.read_volatile();
                let before: Option<Vec<_>> = sealed.then(|| places.iter().map(held).collect());
                let acted = other.join().unwrap();
                if let Some(before) = before {
                    let after: Vec<_> = places.iter().map(held).collect();
                    changed += i64::from(before != after);
                    torn += i64::from(removes && acted == 0);
                }
                acted
            });
            if acted == 0 {
                libc::munmap(at.cast(), len);
            }
        }
        tell(&format!("{what}: changed after it was sealed"), changed);
        tell(&format!("{what}: sealed and gone"), torn);
    };
    fn gone(at: *mut u8, len: usize) -> c_int {
        unsafe { libc::munmap(at.cast(), len) }
    }
    fn emptied(at: *mut u8, len: usize) -> c_int {
        unsafe { libc::madvise(at.cast(), len, libc::MADV_DONTNEED) }
    }
    race("munmap", TOUCHED * STEP, true, gone);
    race("a large madvise", TOUCHED * STEP, false, emptied);
    race("a small madvise", PAGE, false, emptied);
}
