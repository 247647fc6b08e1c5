//! A file that is truncated: no mapping shows its old pages afterwards, however many mappings there
//! are, wherever they move meanwhile, and whichever process inherits them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;

use libc::{
    MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_POPULATE, MAP_PRIVATE, MAP_SHARED, MREMAP_DONTUNMAP,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, c_void,
};

use super::become_user;
use crate::{in_child, tell, tell_ok};

const PAGE: usize = 4096;
/// The bytes that one last-level table maps.
const TABLE: usize = 2 << 20;
/// The size of the file.
const LEN: usize = 64 << 20;
/// The number of mappings of the whole file, and of mappings of one page.
const WHOLE: usize = 16;
const SINGLE: usize = 40_000;
const ROUNDS: usize = 60;

/// A file with a page of ones at the start of each table.
struct Holes(OwnedFd);

impl Holes {
    fn new() -> Self {
        // SAFETY: the name is NUL-terminated; this function owns the descriptor.
        Holes(unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"lost".as_ptr(), 0)) })
    }

    fn resize(&self, len: usize) {
        // SAFETY: no pointer is passed.
        assert_eq!(
            unsafe { libc::ftruncate(self.0.as_raw_fd(), len as i64) },
            0
        );
    }

    fn fill(&self) {
        self.resize(LEN);
        for at in (0..LEN).step_by(TABLE) {
            // SAFETY: reads one byte.
            unsafe { libc::pwrite(self.0.as_raw_fd(), [1u8].as_ptr().cast(), 1, at as i64) };
        }
    }

    fn map(&self, at: *mut c_void, len: usize, flags: i32) -> *mut c_void {
        let rights = PROT_READ | PROT_WRITE;
        // SAFETY: a mapping of this part, or a replacement of one.
        let at = unsafe { libc::mmap(at, len, rights, flags, self.0.as_raw_fd(), 0) };
        assert!(at != MAP_FAILED, "{}", crate::error());
        at
    }
}

/// Reserves addresses for `len` bytes.
fn room(len: usize) -> *mut c_void {
    let flags = MAP_PRIVATE | MAP_NORESERVE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, PROT_NONE, flags, -1, 0) };
    assert!(at != MAP_FAILED);
    at
}

/// The number of tables at an address whose first byte can be read, and is not 0.
fn shown(start: *mut c_void) -> usize {
    let byte = |at: usize| {
        let mut byte = 0u8;
        let to = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let from = libc::iovec {
            iov_base: start.wrapping_byte_add(at),
            iov_len: 1,
        };
        // SAFETY: the kernel checks the address; there is room for the byte.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        read == 1 && byte != 0
    };
    (0..LEN).step_by(TABLE).filter(|&at| byte(at)).count()
}

/// A file with many mappings.
fn many() {
    let file = Holes::new();
    file.resize(LEN);
    let whole: Vec<_> = (0..WHOLE)
        .map(|_| file.map(ptr::null_mut(), LEN, MAP_SHARED | MAP_POPULATE))
        .collect();
    let start = room(SINGLE * PAGE);
    for page in 0..SINGLE {
        let at = start.wrapping_byte_add(page * PAGE);
        file.map(at, PAGE, MAP_SHARED | MAP_FIXED);
    }
    file.fill();
    let before: usize = whole.iter().map(|&at| shown(at)).sum();
    tell("shown in mappings of all", before as i64);
    file.resize(0);
    file.resize(LEN);
    let after: usize = whole.iter().map(|&at| shown(at)).sum();
    tell("after they were lost", after as i64);
    // SAFETY: inside the mapping.
    tell("in the first of a page", unsafe {
        start.cast::<u8>().read()
    });
}

/// A mapping that moves back and forth while the file is truncated.
fn moved() {
    let file = Holes::new();
    file.fill();
    let places = [(); 2].map(|()| file.map(ptr::null_mut(), LEN, MAP_SHARED));
    let addresses = places.map(|place| place.expose_provenance());
    let mut late = 0;
    for round in 0..ROUNDS {
        thread::scope(|scope| {
            scope.spawn(move || {
                let place = |at: usize| ptr::with_exposed_provenance_mut(addresses[at % 2]);
                // SAFETY: only system calls access the pages.
                let moved = unsafe {
                    // Keeps the old address mapped, so that nothing else is mapped there.
                    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
                    libc::mremap(place(round), LEN, LEN, flags, place(round + 1))
                };
                assert!(moved != MAP_FAILED, "{}", crate::error());
            });
            file.resize(0);
        });
        file.resize(LEN);
        late += places.iter().map(|&place| shown(place)).sum::<usize>();
        file.fill();
        assert_eq!(places.map(shown), [LEN / TABLE; 2]);
    }
    tell("shown where they moved to", late as i64);
}

/// A child that inherits copies of the pages while the file is truncated.
fn inherited() {
    let file = Holes::new();
    let mut late = 0;
    for _ in 0..ROUNDS {
        file.fill();
        let place = file.map(ptr::null_mut(), LEN, MAP_PRIVATE);
        for at in (0..LEN).step_by(TABLE) {
            // SAFETY: inside the mapping.
            unsafe { place.wrapping_byte_add(at).cast::<u8>().write(2) };
        }
        let mut ends = [-1; 2];
        // SAFETY: the array has room for two descriptors.
        unsafe { libc::pipe(ends.as_mut_ptr()) };
        let address = place.expose_provenance();
        let child = thread::scope(|scope| {
            let forks = scope.spawn(move || {
                // SAFETY: the child only makes system calls, and ends.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        let mut byte = 0u8;
                        libc::read(ends[0], (&raw mut byte).cast(), 1);
                        let place = ptr::with_exposed_provenance_mut(address);
                        libc::_exit(shown(place) as i32);
                    }
                    child
                }
            });
            file.resize(0);
            forks.join().expect("a child")
        });
        file.resize(LEN);
        let mut status = -1;
        // SAFETY: this function's own descriptors, mapping and child.
        unsafe {
            libc::write(ends[1], [0u8].as_ptr().cast(), 1);
            libc::waitpid(child, &mut status, 0);
            libc::close(ends[0]);
            libc::close(ends[1]);
            libc::munmap(place, LEN);
        }
        late += status;
    }
    tell("shown to children", late);
}

/// Runs this part.
pub fn run() {
    in_child(|| {
        become_user();
        many();
    });
    in_child(moved);
    in_child(inherited);
    tell_ok("all was run", true);
}
