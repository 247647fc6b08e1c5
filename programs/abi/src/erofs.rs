//! Files on EROFS, in the current folder: mappings, offsets in directories and in sparse files,
//! results of statx(2), and calls that would write.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

use libc::{
    AT_FDCWD, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_SHARED, O_APPEND, O_CREAT, O_DIRECT,
    O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY, PROT_READ, PROT_WRITE, SEEK_CUR, SEEK_DATA,
    SEEK_END, SEEK_HOLE, SEEK_SET, c_int,
};

use crate::{path, tell, tell_ok};

const PAGE: usize = 4096;
const GETFLAGS: u64 = 0x8008_6601;
/// Attributes that an inode can have (STATX_ATTR_*).
const KEPT: u64 = 0x4 | 0x10 | 0x20 | 0x40;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to live memory of the right length, and every name is
    // NUL-terminated.
    unsafe {
        attributes();
        mappings();
        places();
        writes();
        remount();
    }
    directory();
}

unsafe fn open(name: &'static CStr, flags: c_int) -> c_int {
    unsafe { libc::open(path(name), flags, 0o644) }
}

unsafe fn attributes() {
    for name in [c".", c"lines", c"pipe", c"three"] {
        unsafe {
            let mut found: libc::statx = std::mem::zeroed();
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
            tell(
                "statx",
                libc::statx(AT_FDCWD, path(name), flags, mask, &raw mut found),
            );
            let (all, known) = (found.stx_attributes, found.stx_attributes_mask);
            let told = found.stx_mask & mask;
            println!("{told:x} {:x} {:x}", all & KEPT, known & KEPT);
        }
    }
}

unsafe fn map(file: c_int, rights: c_int, kind: c_int) -> *mut u8 {
    unsafe { libc::mmap(null_mut(), 2 * PAGE, rights, kind, file, 0).cast() }
}

unsafe fn mappings() {
    unsafe {
        let file = open(c"blocks", O_RDONLY);
        let both = PROT_READ | PROT_WRITE;
        tell_ok(
            "shared, to write",
            map(file, both, MAP_SHARED).cast() != MAP_FAILED,
        );
        let shared = map(file, PROT_READ, MAP_SHARED);
        tell("mprotect", libc::mprotect(shared.cast(), PAGE, both));
        let private = map(file, both, MAP_PRIVATE);
        let same = |at: usize| *shared.add(at) == *private.add(at);
        println!("{} {}", (0..2 * PAGE).all(same), *shared.add(2 * PAGE - 1));
        *private.add(5) = b'!';
        println!("{} {}", *private.add(5), *shared.add(5));
        tell("msync", libc::msync(shared.cast(), PAGE, libc::MS_SYNC));
        libc::munmap(shared.cast(), 2 * PAGE);
        libc::munmap(private.cast(), 2 * PAGE);
        libc::close(file);
    }
}

unsafe fn places() {
    unsafe {
        let file = open(c"sparse", O_RDONLY);
        for (whence, at) in [
            (SEEK_DATA, 0),
            (SEEK_DATA, 700_000),
            (SEEK_DATA, 1 << 20),
            (SEEK_HOLE, 0),
            (SEEK_HOLE, 1 << 20),
            (SEEK_END, 0),
            (SEEK_SET, -1),
        ] {
            tell("lseek", libc::lseek(file, at, whence));
        }
        let mut bytes = [1u8; 8];
        let count = libc::pread(file, bytes.as_mut_ptr().cast(), 8, (500 << 10) - 1);
        println!("{count} {bytes:?}");
        let count = libc::pread(file, bytes.as_mut_ptr().cast(), 8, (1 << 20) - 3);
        println!("{count} {bytes:?}");
        direct();
        tell("fsync", libc::fsync(file));
        tell("syncfs", libc::syncfs(file));
        tell(
            "fadvise",
            libc::posix_fadvise(file, 0, 0, libc::POSIX_FADV_WILLNEED),
        );
        let mut flags = 0u32;
        tell(
            "FS_IOC_GETFLAGS",
            libc::ioctl(file, GETFLAGS as _, &raw mut flags),
        );
        tell("readahead", libc::readahead(file, 0, 1 << 16) as i64);
        tell("write", libc::write(file, bytes.as_ptr().cast(), 1) as i64);
        tell("ftruncate", libc::ftruncate(file, 1));
        tell("fallocate", libc::fallocate(file, 0, 0, 1));
        tell("fchmod", libc::fchmod(file, 0o600));
        libc::close(file);
    }
}

/// Reads with O_DIRECT, aligned and unaligned.
unsafe fn direct() {
    unsafe {
        let file = open(c"lines", O_RDONLY | O_DIRECT);
        let memory = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        for (to, count, at) in [
            (0, 512, 0),
            (0, 8192, 512),
            (0, 100, 0),
            (1, 512, 0),
            (0, 512, 7),
        ] {
            let read = libc::pread(file, memory.add(to).cast(), count, at);
            tell("O_DIRECT", read as i64);
            println!("{:?}", std::slice::from_raw_parts(memory.add(to), 8));
        }
        let read = libc::pread(file, memory.cast(), 512, 28_672);
        tell("O_DIRECT at the end", read as i64);
        libc::munmap(memory.cast(), 2 * PAGE);
        libc::close(file);
    }
}

unsafe fn writes() {
    unsafe {
        for (name, flags) in [
            (c"lines", O_WRONLY),
            (c"lines", O_RDWR),
            (c"lines", O_RDONLY | O_TRUNC),
            (c"lines", O_WRONLY | O_APPEND),
            (c"lines", O_RDONLY | O_CREAT),
            (c"new", O_RDONLY | O_CREAT),
            (c".", O_RDWR | O_TMPFILE),
            (c"three", O_WRONLY),
            (c"null", O_WRONLY),
        ] {
            let file = open(name, flags);
            tell_ok("open", file >= 0);
            libc::close(file);
        }
        tell("access", libc::access(path(c"lines"), libc::W_OK));
        tell("access", libc::access(path(c"null"), libc::W_OK));
        tell("utimes", libc::utimes(path(c"lines"), std::ptr::null()));
        tell(
            "removexattr",
            libc::removexattr(path(c"lines"), path(c"user.one")),
        );
        tell("mknod", libc::mknod(path(c"new"), 0o010600, 0));
        tell("unlink", libc::unlink(path(c"none")));
        tell("mkdir", libc::mkdir(path(c"many"), 0o755));
        tell("rename", libc::rename(path(c"none"), path(c"many")));
    }
}

/// A remount with the option `rw` does not make it writable.
unsafe fn remount() {
    unsafe {
        let (at, word) = (path(c"."), path(c"rw"));
        let flags = libc::MS_REMOUNT;
        tell(
            "remount",
            libc::mount(null(), at, null(), flags, word.cast()),
        );
        let mut found: libc::statvfs = std::mem::zeroed();
        libc::statvfs(at, &raw mut found);
        println!("read-only: {}", found.f_flag & libc::ST_RDONLY);
        tell_ok("open", open(c"lines", O_WRONLY) >= 0);
    }
}

/// A record of a directory.
struct Entry {
    inode: u64,
    kind: u8,
    name: Vec<u8>,
    next: i64,
}

/// Reads entries from the directory's offset, as many as fit into `room` bytes.
fn read(folder: &File, room: usize) -> Vec<Entry> {
    let mut bytes = vec![0u8; room];
    // SAFETY: the buffer has this length.
    let count = unsafe {
        let (file, to) = (folder.as_raw_fd(), bytes.as_mut_ptr());
        libc::syscall(libc::SYS_getdents64, file, to, room)
    };
    let mut rest = &bytes[..count.max(0) as usize];
    let mut entries = Vec::new();
    while rest.len() > 19 {
        let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
        let name = rest[19..length].split(|byte| *byte == 0).next();
        entries.push(Entry {
            inode: u64::from_ne_bytes(rest[..8].try_into().unwrap()),
            next: i64::from_ne_bytes(rest[8..16].try_into().unwrap()),
            kind: rest[18],
            name: name.unwrap().to_vec(),
        });
        rest = &rest[length..];
    }
    entries
}

/// The entries of a folder in their order; each offset leads to the entry after it.
fn directory() {
    use std::os::unix::fs::MetadataExt;
    for name in [".", "many"] {
        let folder = File::open(name).expect("a folder");
        let mut all = Vec::new();
        loop {
            let more = read(&folder, 1000);
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        let places: Vec<_> = all.iter().map(|entry| entry.next).collect();
        println!("{name}: {} entries, places {:?}", all.len(), &places[..8]);
        println!("the last: {:?}", places.last());
        let mut good = 0;
        for (at, entry) in all.iter().enumerate() {
            // SAFETY: the file is open.
            let place = unsafe { libc::lseek(folder.as_raw_fd(), entry.next, SEEK_SET) };
            let next = read(&folder, 300);
            let expected = all.get(at + 1).map(|entry| &entry.name);
            let same = next.first().map(|entry| &entry.name) == expected;
            let found = std::fs::symlink_metadata(
                std::path::Path::new(name).join(OsStr::from_bytes(&entry.name)),
            );
            let found = found.expect("a file");
            let is_up = name == "." && entry.name == b"..";
            let kind = (found.mode() >> 12) as u8 == entry.kind;
            good += usize::from(
                place == entry.next && same && kind && (is_up || found.ino() == entry.inode),
            );
        }
        println!("{good} are as they should be");
        // SAFETY: the file is open.
        unsafe {
            for (whence, at) in [
                (SEEK_SET, 13),
                (SEEK_CUR, 0),
                (SEEK_END, 0),
                (SEEK_SET, 1 << 40),
            ] {
                tell("lseek", libc::lseek(folder.as_raw_fd(), at, whence));
                let first = read(&folder, 300);
                let first = first.first().map(|entry| &entry.name);
                println!("{:?}", first.map(|name| String::from_utf8_lossy(name)));
            }
        }
    }
}
