//! What the calls are about: memory, names, and a descriptor of every kind.

use std::ffi::CStr;
use std::ptr;

/// What a descriptor is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    File,
    Reader,
    Writer,
    Socket,
    Datagrams,
    Directory,
    Epoll,
    Event,
    Timer,
    Inotify,
    Terminal,
    Process,
}

/// All of them; a call without descriptors has the first.
pub const ALL: &[Object] = &[
    Object::File,
    Object::Reader,
    Object::Writer,
    Object::Socket,
    Object::Datagrams,
    Object::Directory,
    Object::Epoll,
    Object::Event,
    Object::Timer,
    Object::Inotify,
    Object::Terminal,
    Object::Process,
];

/// The first descriptor, and those of each object from there on.
const FIRST: i32 = 20;
/// What an argument points to.
const AREA: usize = 0x4_0000_0000;
const PART: usize = 1 << 16;

/// The address that argument `at` has: zeroes, and pages behind them.
pub fn memory(at: usize) -> i64 {
    (AREA + at * 2 * PART) as i64
}

/// The name that a call has for its `n`-th.
pub fn path(call: &str, n: usize) -> i64 {
    let name: &CStr = match n {
        1 if call.contains("xattr") => c"user.ends",
        0 if call.starts_with("fsetx") || call.starts_with("fgetx") => c"user.ends",
        0 if call.starts_with("mq_") => c"ends",
        0 if call == "memfd_create" => c"ends",
        0 => c"file",
        _ => c"other",
    };
    name.as_ptr() as i64
}

/// The `n`-th descriptor of a call about `object`.
pub fn descriptor(object: Object, n: usize, call: &str) -> i64 {
    // What has a name is found from here.
    let named = call.ends_with("at") || call.ends_with("at2") || call == "statx";
    let of = match (n, object) {
        _ if named && object == Object::File => return libc::AT_FDCWD.into(),
        (0, object) => object,
        (_, Object::Reader) => Object::Writer,
        (_, Object::Writer) => Object::Reader,
        _ => Object::Event,
    };
    i64::from(FIRST) + ALL.iter().position(|one| *one == of).unwrap_or(0) as i64
}

/// Removes what another child left.
pub fn remove() {
    for name in [c"file", c"other"] {
        // SAFETY: the names end with zero.
        unsafe {
            libc::unlink(name.as_ptr());
            libc::rmdir(name.as_ptr());
        }
    }
}

/// Makes everything anew, for a child that tries.
pub fn make() {
    // SAFETY: the memory at AREA is nobody's, every name ends with zero, and there is room for two
    // descriptors of a pipe.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(AREA as *mut _, 12 * PART, rights, flags, -1, 0);
        let mut pipe = [0; 2];
        libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK);
        let terminal = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_NONBLOCK);
        let made = [
            libc::open(c"file".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o644),
            pipe[0],
            pipe[1],
            libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0),
            libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0),
            libc::open(c".".as_ptr(), libc::O_RDONLY),
            libc::epoll_create1(0),
            libc::eventfd(0, libc::EFD_NONBLOCK),
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK),
            libc::inotify_init1(libc::IN_NONBLOCK),
            terminal,
            libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as i32,
        ];
        for (to, from) in (FIRST..).zip(made) {
            libc::dup2(from, to);
            libc::close(from);
        }
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        (0..3).for_each(|fd| _ = libc::dup2(nothing, fd));
        libc::close(nothing);
    }
}

/// Zeroes the beginning of every argument's memory, but for `words`: argument, place, value.
pub fn fill(words: impl Iterator<Item = (usize, usize, i64)>) {
    for at in 0..6 {
        // SAFETY: the memory is there, unless a call before took it, which ends this child.
        unsafe { ptr::write_bytes(memory(at) as *mut u8, 0, 256) };
    }
    for (at, word, value) in words {
        // SAFETY: as above.
        unsafe { (memory(at) as *mut i64).add(word).write(value) };
    }
}
