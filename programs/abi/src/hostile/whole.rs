//! Large operations that are done in parts look atomic: moves of memory, tables printed line by
//! line, and the close of a large epoll set.

use std::fs::File;
use std::io::Read;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_DONTUNMAP,
    MREMAP_FIXED, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE, c_void,
};

use super::become_user;
use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const LEN: usize = 160 << 20;
/// The number of System V objects, and of sockets.
const MANY: usize = 3000;
/// The number of descriptors, and of copies of the table.
const COPIED: usize = 50_000;
const CHILDREN: i32 = 6;
/// The number of members of an epoll set.
const MEMBERS: usize = 10_000;

fn map(at: *mut c_void, len: usize, rights: i32, flags: i32) -> *mut c_void {
    let flags = flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a mapping of this part.
    let at = unsafe { libc::mmap(at, len, rights, flags, -1, 0) };
    assert!(at != MAP_FAILED, "{}", crate::error());
    at
}

/// Memory of small pages that contain their numbers.
struct Pages(*mut c_void);

impl Pages {
    fn new() -> Self {
        let at = map(ptr::null_mut(), LEN, PROT_READ | PROT_WRITE, 0);
        // SAFETY: this function's own mapping.
        unsafe { libc::madvise(at, LEN, libc::MADV_NOHUGEPAGE) };
        let pages = Pages(at);
        pages.words().enumerate().for_each(|(number, word)| {
            // SAFETY: inside the mapping.
            unsafe { word.write(number + 1) };
        });
        pages
    }

    fn words(&self) -> impl Iterator<Item = *mut usize> {
        let at = self.0;
        (0..LEN)
            .step_by(PAGE)
            .map(move |offset| at.wrapping_byte_add(offset).cast())
    }

    fn are_right(&self) -> bool {
        // SAFETY: inside the mapping.
        let mut numbers = self.words().map(|word| unsafe { word.read() });
        (1..=LEN / PAGE).all(|number| numbers.next() == Some(number))
    }

    /// Moves the pages to other addresses.
    fn move_away(&mut self, flags: i32) -> *mut c_void {
        let room = map(ptr::null_mut(), LEN, PROT_NONE, 0);
        let flags = flags | MREMAP_MAYMOVE | MREMAP_FIXED;
        // SAFETY: the mapping is owned, and so is its target.
        let new = unsafe { libc::mremap(self.0, LEN, LEN, flags, room) };
        assert!(new != MAP_FAILED, "{}", crate::error());
        std::mem::replace(&mut self.0, new)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nobody else uses the mapping.
        unsafe { libc::munmap(self.0, LEN) };
    }
}

fn is_mapped(at: *mut c_void) -> bool {
    let mut pages = vec![0; LEN / PAGE];
    // SAFETY: the array has a byte for each page.
    unsafe { libc::mincore(at, LEN, pages.as_mut_ptr()) == 0 }
}

fn moved() {
    let mut pages = Pages::new();
    let old = pages.move_away(0);
    tell_ok("all has moved", pages.are_right() && !is_mapped(old));
    let old = pages.move_away(MREMAP_DONTUNMAP);
    tell_ok(
        "what is left is mapped",
        pages.are_right() && is_mapped(old),
    );
    let words = (0..LEN).step_by(PAGE);
    let empty = words.map(|offset| {
        // SAFETY: inside the mapping that stayed.
        unsafe { old.wrapping_byte_add(offset).cast::<usize>().read() }
    });
    println!(
        "of it not empty: {}",
        empty.filter(|&word| word != 0).count()
    );
    // SAFETY: nobody else uses the mapping.
    unsafe { libc::munmap(old, LEN) };
    // A child shares its parent's pages until one of them writes.
    let end = in_child(|| {
        pages.move_away(0);
        assert!(pages.are_right());
    });
    tell_end("a child's", end);
    tell_ok("the parent's", pages.are_right());
}

/// Moves memory while a thread maps, writes and unmaps other memory.
fn beside_a_thread() {
    static END: AtomicBool = AtomicBool::new(false);
    static ROUNDS: AtomicUsize = AtomicUsize::new(0);
    let busy = thread::spawn(|| {
        while !END.load(Relaxed) {
            let at = map(ptr::null_mut(), 4 * PAGE, PROT_READ | PROT_WRITE, 0);
            // SAFETY: this thread's own mapping.
            unsafe {
                at.cast::<usize>().write(1);
                libc::munmap(at, 4 * PAGE);
            }
            ROUNDS.fetch_add(1, Relaxed);
        }
    });
    let mut pages = Pages::new();
    for _ in 0..3 {
        pages.move_away(0);
    }
    tell_ok("all has moved beside a thread", pages.are_right());
    tell_end("a child", in_child(|| assert!(pages.are_right())));
    END.store(true, Relaxed);
    busy.join().expect("the thread ends");
    tell_ok("which went on", ROUNDS.load(Relaxed) > 0);
    // SAFETY: shrinks the mapping in place.
    let room = unsafe { libc::mremap(pages.0, LEN, LEN / 2, 0) };
    println!("half of it is where it was: {}", room == pages.0);
    map(pages.0, LEN, PROT_READ, MAP_FIXED);
}

/// The lines of a file that is read in pieces, without the title.
fn lines(path: &str, piece: usize) -> Vec<String> {
    let mut file = File::open(path).expect("procfs");
    let (mut all, mut bytes) = (Vec::new(), vec![0; piece]);
    loop {
        match file.read(&mut bytes).expect("a text") {
            0 => break,
            count => all.extend_from_slice(&bytes[..count]),
        }
    }
    let text = String::from_utf8_lossy(&all);
    text.lines().skip(1).map(str::to_owned).collect()
}

fn objects() {
    let number = |line: &str| line.split_whitespace().nth(1)?.parse::<i32>().ok();
    let make = || {
        // SAFETY: no pointer is passed.
        unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }
    };
    let all: Vec<i32> = (0..MANY).map(|_| make()).collect();
    tell_ok("sets", all.iter().all(|&set| set >= 0));
    for piece in [1000, 1 << 20] {
        let told = lines("/proc/sysvipc/sem", piece);
        let mut told: Vec<i32> = told.iter().filter_map(|line| number(line)).collect();
        let count = told.len();
        told.sort();
        told.dedup();
        let all = all.iter().all(|set| told.binary_search(set).is_ok());
        println!(
            "{count} sets are told, each once: {}",
            told.len() == count && all
        );
    }
    // Removes sets while a reader is in the list.
    let mut file = File::open("/proc/sysvipc/sem").expect("procfs");
    let mut text = vec![0; 2000];
    let first = file.read(&mut text).expect("a text");
    for &set in &all {
        // SAFETY: no pointer is passed.
        unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
    }
    let mut rest = String::new();
    file.read_to_string(&mut rest).expect("a text");
    tell_ok(
        "fewer after they went",
        first > 0 && rest.lines().count() < MANY / 2,
    );
    println!("{} are left", lines("/proc/sysvipc/sem", 4096).len());
}

fn sockets() {
    let before = lines("/proc/net/unix", 1 << 20).len();
    // SAFETY: creates descriptors.
    let all: Vec<i32> = (0..MANY)
        .map(|_| unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0) })
        .collect();
    for piece in [1000, 1 << 20] {
        let told = lines("/proc/net/unix", piece).len();
        println!("{} sockets are told", told - before);
    }
    for socket in all {
        // SAFETY: nobody else uses the descriptor.
        unsafe { libc::close(socket) };
    }
    println!("{} are left", lines("/proc/net/unix", 4096).len() - before);
}

/// An epoll set with ready members is closed while another thread changes them.
fn members() {
    // SAFETY: creates descriptors, and passes live values.
    unsafe {
        let file = libc::eventfd(0, 0);
        let set = libc::epoll_create1(0);
        let mut failed = 0;
        for _ in 0..MEMBERS {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            let member = libc::dup(file);
            failed += libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, member, &mut event);
        }
        println!("{MEMBERS} members, failed: {failed}");
        let one = 1u64;
        // All members become ready at once.
        libc::write(file, (&raw const one).cast(), 8);
        let changes = thread::spawn(move || {
            for _ in 0..20 {
                libc::write(file, (&raw const one).cast(), 8);
            }
        });
        tell("the set ends", libc::close(set));
        changes.join().expect("the thread ends");
        let mut count = 0u64;
        libc::read(file, (&raw mut count).cast(), 8);
        println!("the file counted {count}");
    }
}

/// A child gets the descriptors of one moment, while a thread moves one between two numbers.
fn descriptors() {
    static END: AtomicBool = AtomicBool::new(false);
    // SAFETY: this part's own descriptors.
    unsafe {
        let file = libc::eventfd(0, 0);
        let all: Vec<_> = (0..COPIED).map(|_| libc::dup(file)).collect();
        let (low, high) = (all[0], all[COPIED - 1]);
        // One of both is open at any moment.
        let mover = thread::spawn(move || {
            while !END.load(Relaxed) {
                libc::close(low);
                libc::dup2(high, low);
                libc::close(high);
                libc::dup2(low, high);
            }
        });
        let mut whole = 0;
        for _ in 0..CHILDREN {
            whole += i32::from(
                in_child(|| {
                    let is = |fd: &i32| libc::fcntl(*fd, libc::F_GETFD) == 0;
                    let count = all.iter().filter(|fd| is(fd)).count();
                    if count < COPIED - 1 {
                        libc::_exit(1);
                    }
                }) == 0,
            );
        }
        END.store(true, Relaxed);
        mover.join().expect("the thread ends");
        println!("of {CHILDREN} children have all: {whole}");
    }
}

/// Runs this part.
pub fn run() {
    let room = libc::rlimit {
        rlim_cur: COPIED as u64 + 100,
        rlim_max: COPIED as u64 + 100,
    };
    // SAFETY: the limit is live.
    tell("descriptors", unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &room)
    });
    for (name, part) in [
        ("moved", moved as fn()),
        ("beside a thread", beside_a_thread),
        ("objects", objects),
        ("sockets", sockets),
        ("members", members),
        ("descriptors", descriptors),
    ] {
        let end = in_child(|| {
            become_user();
            part();
        });
        tell_end(name, end);
    }
}
