//! Mappings: creating, splitting, moving, discarding and sharing them, and refusals.

use std::ptr;

use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE,
    MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_void,
    madvise, mmap, mprotect, mremap, munmap,
};

use crate::{in_child, path, tell, tell_end, tell_ok, touch};

const PAGE: usize = 4096;
const BOTH: c_int = PROT_READ | PROT_WRITE;
const PRIVATE: c_int = MAP_PRIVATE | MAP_ANONYMOUS;

/// Maps anonymous memory at any address.
fn map(pages: usize, flags: c_int) -> *mut u8 {
    // SAFETY: a new mapping touches no memory in use.
    unsafe { mmap(ptr::null_mut(), pages * PAGE, BOTH, flags, -1, 0).cast() }
}

/// Prints the result of a mapping, without its address, which differs from run to run.
fn tell_map(what: &str, address: *mut c_void) {
    tell_ok(what, address != MAP_FAILED);
}

/// Runs this part.
pub fn run() {
    // SAFETY: every address used was just mapped, and accesses that fault are in a child.
    unsafe {
        refusals();
        validated();
        splitting();
        moving();
        dropping();
        sharing();
        of_files();
        growing();
        beside_a_thread();
    }
}

/// The end of a thread leaves memory of the others alone, even if that has many page tables and all
/// of them sleep.
unsafe fn beside_a_thread() {
    const APART: usize = 512;
    const TOUCHED: usize = 300;
    unsafe {
        let memory = map(TOUCHED * APART, PRIVATE | libc::MAP_NORESERVE);
        let touched = || (0..TOUCHED).map(|at| memory.add(at * APART * PAGE));
        _ = madvise(memory.cast(), TOUCHED * APART * PAGE, libc::MADV_NOHUGEPAGE);
        touched().for_each(|byte| byte.write_volatile(1));
        let brief = std::time::Duration::from_millis(100);
        let ended = std::thread::spawn(move || std::thread::sleep(brief)).join();
        tell("a thread beside sparse memory", ended.is_ok());
        let whole = touched().all(|byte| byte.read_volatile() == 1);
        tell("which is still there", whole);
        munmap(memory.cast(), TOUCHED * APART * PAGE);
    }
}

unsafe fn refusals() {
    unsafe {
        tell_map("length 0", mmap(ptr::null_mut(), 0, BOTH, PRIVATE, -1, 0));
        tell_map(
            "no kind",
            mmap(ptr::null_mut(), PAGE, BOTH, MAP_ANONYMOUS, -1, 0),
        );
        tell_map(
            "bad descriptor",
            mmap(ptr::null_mut(), PAGE, BOTH, MAP_PRIVATE, 99, 0),
        );
        tell_map(
            "odd offset",
            mmap(ptr::null_mut(), PAGE, BOTH, MAP_PRIVATE, 0, 100),
        );
        tell_map(
            "odd fixed address",
            mmap(100 as _, PAGE, BOTH, PRIVATE | MAP_FIXED, -1, 0),
        );
        tell_map(
            "too long",
            mmap(ptr::null_mut(), usize::MAX - PAGE, BOTH, PRIVATE, -1, 0),
        );
        let spare = map(1, PRIVATE);
        let used = map(3, PRIVATE).add(PAGE);
        tell_map(
            "in use, not to be replaced",
            mmap(
                used.cast(),
                PAGE,
                BOTH,
                PRIVATE | MAP_FIXED_NOREPLACE,
                -1,
                0,
            ),
        );
        tell("munmap of an odd address", munmap(used.add(1).cast(), PAGE));
        tell("munmap of length 0", munmap(used.cast(), 0));
        tell("munmap", munmap(used.cast(), PAGE));
        tell("munmap again", munmap(used.cast(), PAGE));
        tell(
            "mprotect of nothing mapped",
            mprotect(used.cast(), PAGE, BOTH),
        );
        tell(
            "madvise of nothing mapped",
            madvise(used.cast(), PAGE, MADV_DONTNEED),
        );
        tell(
            "madvise of unknown advice",
            madvise(spare.cast(), PAGE, 12345),
        );
        tell_map(
            "mremap of nothing mapped",
            mremap(used.cast(), PAGE, 2 * PAGE, MREMAP_MAYMOVE),
        );
    }
}

/// MAP_SHARED_VALIDATE of a file with each other flag.
unsafe fn validated() {
    unsafe {
        let file = libc::memfd_create(c"validated".as_ptr(), 0);
        libc::ftruncate(file, PAGE as i64);
        for bit in 3..31 {
            let kind = libc::MAP_SHARED_VALIDATE | 1 << bit;
            // A free address, for flags that take it as fixed.
            let place = map(1, PRIVATE);
            munmap(place.cast(), PAGE);
            tell_map(
                &format!("validated, bit {bit}"),
                mmap(place.cast(), PAGE, BOTH, kind, file, 0),
            );
        }
        libc::close(file);
    }
}

unsafe fn splitting() {
    unsafe {
        let area = map(5, PRIVATE);
        for page in 0..5 {
            *area.add(page * PAGE) = page as u8 + 1;
        }
        tell("a hole", munmap(area.add(2 * PAGE).cast(), PAGE));
        tell(
            "protection across the hole",
            mprotect(area.cast(), 5 * PAGE, PROT_READ),
        );
        println!(
            "around the hole: {} {}",
            *area.add(PAGE),
            *area.add(3 * PAGE)
        );
        tell_end("a read of the hole", in_child(|| touch(area.add(2 * PAGE))));
        tell_end(
            "a write of what is read-only",
            in_child(|| area.write_volatile(9)),
        );
        tell("writable again", mprotect(area.cast(), PAGE, BOTH));
        *area = 77;
        println!("written: {}", *area);
        tell(
            "no access",
            mprotect(area.add(3 * PAGE).cast(), PAGE, PROT_NONE),
        );
        tell_end(
            "a read of what is forbidden",
            in_child(|| touch(area.add(3 * PAGE))),
        );
        tell(
            "access again",
            mprotect(area.add(3 * PAGE).cast(), PAGE, PROT_READ),
        );
        println!("kept: {}", *area.add(3 * PAGE));
    }
}

unsafe fn moving() {
    unsafe {
        let area = map(2, PRIVATE);
        *area = 11;
        *area.add(PAGE) = 12;
        let larger = mremap(area.cast(), 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE).cast::<u8>();
        println!(
            "grown: {} {} {}",
            *larger,
            *larger.add(PAGE),
            *larger.add(63 * PAGE)
        );
        let target = map(64, PRIVATE);
        let moved = mremap(
            larger.cast(),
            64 * PAGE,
            2 * PAGE,
            MREMAP_MAYMOVE | MREMAP_FIXED,
            target,
        )
        .cast::<u8>();
        println!(
            "moved where asked: {} with {} {}",
            moved == target,
            *moved,
            *moved.add(PAGE)
        );
        tell_end("a read of where it was", in_child(|| touch(larger)));
        let shrunk = mremap(moved.cast(), 2 * PAGE, PAGE, 0).cast::<u8>();
        println!("shrunk in place: {} with {}", shrunk == moved, *shrunk);
        tell_map(
            "to length 0",
            mremap(shrunk.cast(), PAGE, 0, MREMAP_MAYMOVE),
        );
    }
}

unsafe fn dropping() {
    unsafe {
        let area = map(3, PRIVATE);
        *area.add(PAGE) = 5;
        tell(
            "dropped",
            madvise(area.add(PAGE).cast(), PAGE, MADV_DONTNEED),
        );
        println!("zero again: {}", *area.add(PAGE));
        let mut resident = [9u8; 3];
        area.write(1);
        tell(
            "mincore",
            libc::mincore(area.cast(), 3 * PAGE, resident.as_mut_ptr()),
        );
        println!("present: {}", resident[0] & 1);
        let large = map(4096, PRIVATE);
        for page in 0..4096 {
            *large.add(page * PAGE) = 1;
        }
        tell("16 MiB given back", munmap(large.cast(), 4096 * PAGE));
    }
}

unsafe fn sharing() {
    unsafe {
        let (private, shared) = (map(1, PRIVATE), map(1, MAP_SHARED | MAP_ANONYMOUS));
        *private = 1;
        *shared = 1;
        let status = in_child(|| {
            *private = 2;
            *shared = 2;
        });
        tell_end("a child that writes", status);
        println!("private {} shared {}", *private, *shared);
        tell_end(
            "zero page",
            in_child(|| {
                let area = map(1, PRIVATE);
                let before = area.read_volatile();
                area.write_volatile(3);
                libc::_exit(i32::from(before) * 10 + i32::from(area.read_volatile()));
            }),
        );
    }
}

unsafe fn of_files() {
    unsafe {
        let file = libc::open(path(c"mapped"), libc::O_RDWR | libc::O_CREAT, 0o600);
        tell("file of two pages", libc::ftruncate(file, 5000));
        let shared = mmap(ptr::null_mut(), 3 * PAGE, BOTH, MAP_SHARED, file, 0).cast::<u8>();
        let private = mmap(ptr::null_mut(), 2 * PAGE, BOTH, MAP_PRIVATE, file, 0).cast::<u8>();
        *shared.add(10) = b'x';
        *private.add(11) = b'y';
        let mut bytes = [0u8; 2];
        tell(
            "read",
            libc::pread(file, bytes.as_mut_ptr().cast(), 2, 10) as i64,
        );
        println!(
            "the file has {bytes:?}, the private page {}",
            *private.add(10)
        );
        tell(
            "written to the file",
            libc::pwrite(file, b"z".as_ptr().cast(), 1, 12) as i64,
        );
        println!("the mapping has {}", *shared.add(12));
        println!("beyond the end of the last page: {}", *shared.add(5001));
        tell_end(
            "beyond the end of the file",
            in_child(|| touch(shared.add(2 * PAGE))),
        );
        tell("cut to nothing", libc::ftruncate(file, 0));
        tell_end("a page that was cut", in_child(|| touch(shared)));
        tell("msync", libc::msync(shared.cast(), PAGE, libc::MS_SYNC));
        libc::close(file);
        let read_only = libc::open(path(c"mapped"), libc::O_RDONLY);
        tell_map(
            "shared and writable of a read-only file",
            mmap(ptr::null_mut(), PAGE, BOTH, MAP_SHARED, read_only, 0),
        );
        tell_map(
            "private and writable of it",
            mmap(ptr::null_mut(), PAGE, BOTH, MAP_PRIVATE, read_only, 0),
        );
    }
}

unsafe fn growing() {
    unsafe {
        let start = libc::syscall(libc::SYS_brk, 0) as usize;
        let end = libc::syscall(libc::SYS_brk, start + 10 * PAGE) as usize;
        println!("brk grew by {}", end - start);
        *((start + 9 * PAGE) as *mut u8) = 1;
        println!(
            "brk back by {}",
            end - libc::syscall(libc::SYS_brk, start) as usize
        );
        println!(
            "brk refused: {}",
            libc::syscall(libc::SYS_brk, 1usize << 60) as usize == start
        );
        tell_end(
            "a deep stack",
            in_child(|| {
                fn dive(depth: u32) -> u32 {
                    let room = std::hint::black_box([depth; 256]);
                    if depth == 0 {
                        0
                    } else {
                        dive(depth - 1) + room[255] - depth + 1
                    }
                }
                libc::_exit((dive(3000) % 100) as i32);
            }),
        );
    }
}
