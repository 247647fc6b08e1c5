//! Files: flags, offsets, links, renames, times, and errors of these.

use std::mem;
use std::ptr;
use std::sync::atomic::AtomicU8;

use libc::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, SEEK_CUR, SEEK_END, SEEK_SET, c_int,
};
use libc::{
    O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};

use crate::{path, tell};

fn open(name: &'static std::ffi::CStr, flags: c_int) -> c_int {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::open(path(name), flags, 0o644) }
}

fn write(file: c_int, bytes: &[u8]) -> i64 {
    // SAFETY: pointer and length are of the slice.
    unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) as i64 }
}

fn text(name: &str) -> String {
    std::fs::read_to_string(name).unwrap_or_else(|error| error.to_string())
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        opening();
        offsets();
        names();
        metadata();
        mapped();
        vectors();
        descriptors();
        sizes();
        only_a_place();
    }
}

/// An O_PATH descriptor: calls that need an open file refuse it.
unsafe fn only_a_place() {
    unsafe {
        let file = libc::open(path(c"file"), libc::O_PATH);
        let here = libc::open(path(c"."), libc::O_PATH);
        let mut bytes = [0u8; 64];
        let room: *mut libc::c_void = bytes.as_mut_ptr().cast();
        tell("read of a place", libc::read(file, room, 1) as i64);
        tell("lseek", libc::lseek(file, 0, SEEK_SET));
        tell("fsync", libc::fsync(file));
        tell("ftruncate", libc::ftruncate(file, 0));
        tell("fallocate", libc::fallocate(file, 0, 0, 1));
        tell("fadvise", libc::posix_fadvise(file, 0, 0, 0));
        tell("odd advice", libc::posix_fadvise(file, 0, 0, 99));
        tell("flock", libc::flock(file, libc::LOCK_SH));
        // C libraries would fall back to /proc.
        tell("fchmod", libc::syscall(libc::SYS_fchmod, file, 0o600));
        tell("fchown", libc::syscall(libc::SYS_fchown, file, 0, 0));
        let (rights, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let at = libc::mmap(std::ptr::null_mut(), 4096, rights, kind, file, 0);
        tell("mmap", if at == libc::MAP_FAILED { -1 } else { 0 });
        let name = c"user.name".as_ptr();
        tell("fgetxattr", libc::fgetxattr(file, name, room, 1) as i64);
        tell(
            "getdents",
            libc::syscall(libc::SYS_getdents64, here, room, 64),
        );
        let set = libc::epoll_create1(0);
        let mut event: libc::epoll_event = mem::zeroed();
        let add = libc::EPOLL_CTL_ADD;
        tell("epoll", libc::epoll_ctl(set, add, file, &mut event));
        for device in [c"/dev/null", c"/dev/zero", c"/dev/full"] {
            let file = open(device, O_RDONLY);
            tell(
                "epoll of a device",
                libc::epoll_ctl(set, add, file, &mut event),
            );
        }
        let mut stat: libc::stat = mem::zeroed();
        tell("fstat", libc::fstat(file, &mut stat));
        tell("fchdir", libc::fchdir(here));
        tell("dup and close", libc::close(libc::dup(file)));
        tell(
            "getfl is O_PATH",
            (libc::fcntl(file, libc::F_GETFL) & libc::O_PATH != 0) as i64,
        );
        tell("setfl", libc::fcntl(file, libc::F_SETFL, 0));
    }
}

unsafe fn opening() {
    unsafe {
        tell("no such file", open(c"file", O_RDWR));
        let file = open(c"file", O_RDWR | O_CREAT | O_EXCL);
        tell("exclusive, again", open(c"file", O_RDWR | O_CREAT | O_EXCL));
        tell("as a folder", open(c"file", O_RDONLY | O_DIRECTORY));
        tell("a folder to write", open(c".", O_WRONLY));
        tell("an empty name", open(c"", O_RDONLY));
        tell("below a file", open(c"file/x", O_RDONLY));
        tell("with a slash at its end", open(c"file/", O_RDONLY));
        tell("written", write(file, b"hello"));
        let reader = open(c"file", O_RDONLY);
        tell("write to what is read-only", write(reader, b"x"));
        let writer = open(c"file", O_WRONLY);
        let mut byte = 0u8;
        tell(
            "read what is write-only",
            libc::read(writer, (&raw mut byte).cast(), 1) as i64,
        );
        let appender = open(c"file", O_WRONLY | O_APPEND);
        write(writer, b"HE");
        write(appender, b" world");
        println!("{}", text("file"));
        open(c"file", O_WRONLY | O_TRUNC);
        println!("truncated: '{}'", text("file"));
        tell("closed twice", {
            libc::close(file);
            libc::close(file)
        });
    }
}

unsafe fn offsets() {
    unsafe {
        let file = open(c"offsets", O_RDWR | O_CREAT);
        write(file, b"0123456789");
        tell("back by three", libc::lseek(file, -3, SEEK_CUR));
        tell("to the end", libc::lseek(file, 0, SEEK_END));
        tell("before the start", libc::lseek(file, -11, SEEK_END));
        tell("an odd whence", libc::lseek(file, 0, 9));
        tell("beyond the end", libc::lseek(file, 100, SEEK_SET));
        let mut bytes = [1u8; 8];
        tell(
            "read there",
            libc::read(file, bytes.as_mut_ptr().cast(), 8) as i64,
        );
        tell("write there", write(file, b"x"));
        tell(
            "the gap",
            libc::pread(file, bytes.as_mut_ptr().cast(), 8, 50) as i64,
        );
        println!("{bytes:?}");
        tell(
            "pread at a negative offset",
            libc::pread(file, bytes.as_mut_ptr().cast(), 8, -1) as i64,
        );
        last_offsets(file);
        let copy = libc::dup(file);
        libc::lseek(copy, 5, SEEK_SET);
        tell(
            "a duplicate shares its offset",
            libc::lseek(file, 0, SEEK_CUR),
        );
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        tell("seek in a pipe", libc::lseek(pipe[0], 0, SEEK_SET));
        tell("truncated to a negative length", libc::ftruncate(file, -1));
        tell("truncated", libc::ftruncate(file, 4));
        println!("{}", text("offsets"));
        tell("data after a hole", {
            libc::ftruncate(file, 1 << 20);
            libc::lseek(file, 1 << 21, libc::SEEK_DATA)
        });
    }
}

unsafe fn names() {
    unsafe {
        let rename = |from: &'static std::ffi::CStr, to: &'static std::ffi::CStr| {
            libc::rename(path(from), path(to))
        };
        tell("mkdir", libc::mkdir(path(c"one"), 0o755));
        tell("mkdir again", libc::mkdir(path(c"one"), 0o755));
        libc::mkdir(path(c"one/two"), 0o755);
        libc::mkdir(path(c"empty"), 0o755);
        open(c"plain", O_CREAT | O_WRONLY);
        tell("a folder into itself", rename(c"one", c"one/two/three"));
        tell("a folder onto a file", rename(c"one", c"plain"));
        tell("a file onto a folder", rename(c"plain", c"one"));
        tell("onto a folder that is not empty", rename(c"empty", c"one"));
        tell("onto an empty folder", rename(c"one/two", c"empty"));
        tell("onto itself", rename(c"plain", c"plain"));
        tell("of nothing", rename(c"nothing", c"x"));
        tell("rmdir of a file", libc::rmdir(path(c"plain")));
        tell("unlink of a folder", libc::unlink(path(c"one")));
        tell("rmdir of .", libc::rmdir(path(c"one/.")));
        tell(
            "unlinkat of a folder",
            libc::unlinkat(AT_FDCWD, path(c"one"), AT_REMOVEDIR),
        );
        tell("symlink", libc::symlink(path(c"target"), path(c"link")));
        tell("open of a dangling link", open(c"link", O_RDONLY));
        tell(
            "open of the link itself",
            open(c"link", O_RDONLY | O_NOFOLLOW),
        );
        tell(
            "readlink of a file",
            libc::readlink(path(c"plain"), [0u8; 4].as_mut_ptr().cast(), 4) as i64,
        );
        tell(
            "readlink cut short",
            libc::readlink(path(c"link"), [0u8; 4].as_mut_ptr().cast(), 4) as i64,
        );
        tell(
            "a hard link to a folder",
            libc::link(path(c"empty"), path(c"hard")),
        );
        let lost = open(c"lost", O_RDWR | O_CREAT);
        libc::unlink(path(c"lost"));
        tell("write to what has no name", write(lost, b"still there"));
        let mut stat: libc::stat = mem::zeroed();
        libc::fstat(lost, &mut stat);
        println!("links {} size {}", stat.st_nlink, stat.st_size);
        let long = std::ffi::CString::new("x/".repeat(2100)).unwrap();
        tell("too long a path", libc::open(long.as_ptr(), O_RDONLY));
    }
}

unsafe fn metadata() {
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        let file = open(c"meta", O_RDWR | O_CREAT);
        tell("chmod", libc::fchmod(file, 0o4751));
        tell("chown", libc::fchown(file, 5, 6));
        libc::fstat(file, &mut stat);
        println!(
            "mode {:o} owner {} {} block {}",
            stat.st_mode, stat.st_uid, stat.st_gid, stat.st_blksize
        );
        let times = [
            libc::timespec {
                tv_sec: 100,
                tv_nsec: 5,
            },
            libc::timespec {
                tv_sec: 0,
                tv_nsec: libc::UTIME_OMIT,
            },
        ];
        tell("utimensat", libc::futimens(file, times.as_ptr()));
        libc::fstat(file, &mut stat);
        println!(
            "read at {}.{} written lately {}",
            stat.st_atime,
            stat.st_atime_nsec,
            stat.st_mtime > 1000
        );
        libc::symlink(path(c"meta"), path(c"meta-link"));
        libc::fstatat(AT_FDCWD, path(c"meta-link"), &mut stat, AT_SYMLINK_NOFOLLOW);
        println!(
            "a link: {} of {}",
            stat.st_mode & libc::S_IFMT == libc::S_IFLNK,
            stat.st_size
        );
        tell(
            "by descriptor alone",
            libc::fstatat(file, path(c""), &mut stat, AT_EMPTY_PATH),
        );
        tell("access", libc::access(path(c"meta"), libc::R_OK));
        tell(
            "access of nothing",
            libc::access(path(c"nothing"), libc::F_OK),
        );
        let mut folder = [0u8; 5];
        tell(
            "too small for the folder's name",
            if libc::getcwd(folder.as_mut_ptr().cast(), 5).is_null() {
                -1
            } else {
                0
            },
        );
        tell("chdir to a file", libc::chdir(path(c"meta")));
        tell(
            "ioctl of a file",
            libc::ioctl(file, libc::TCGETS as _, &mut stat),
        );
    }
}

/// The times of a mapped file, and O_DIRECT on files that support it.
unsafe fn mapped() {
    const OLD: libc::timespec = libc::timespec {
        tv_sec: 100,
        tv_nsec: 0,
    };
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        let mut told = |what: &str, file| {
            libc::fstat(file, &mut stat);
            let (read, written) = (stat.st_atime > 1000, stat.st_mtime > 1000);
            println!("{what}: read {read}, written {written}");
        };
        let file = open(c"mapped", O_RDWR | O_CREAT);
        libc::ftruncate(file, 4096);
        libc::futimens(file, [OLD, OLD].as_ptr());
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(
            std::ptr::null_mut(),
            4096,
            rights,
            libc::MAP_SHARED,
            file,
            0,
        );
        told("mapped", file);
        at.cast::<u8>().write_volatile(1);
        told("a store", file);
        libc::munmap(at, 4096);
        let direct = libc::O_DIRECT;
        tell("O_DIRECT", libc::fcntl(file, libc::F_SETFL, direct));
        let null = libc::open(c"/dev/null".as_ptr(), O_RDWR);
        tell("of a device", libc::fcntl(null, libc::F_SETFL, direct));
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        tell("of a pipe", libc::fcntl(pipe[1], libc::F_SETFL, direct));
    }
}

unsafe fn vectors() {
    unsafe {
        let file = open(c"vectors", O_RDWR | O_CREAT);
        let part = |bytes: &'static [u8]| libc::iovec {
            iov_base: bytes.as_ptr() as *mut _,
            iov_len: bytes.len(),
        };
        let parts = [part(b"one"), part(b""), part(b"two")];
        tell("writev", libc::writev(file, parts.as_ptr(), 3) as i64);
        println!("{}", text("vectors"));
        tell("of nothing", libc::writev(file, parts.as_ptr(), 0) as i64);
        tell(
            "of too much",
            libc::writev(file, parts.as_ptr(), 2000) as i64,
        );
        let other = open(c"other", O_RDWR | O_CREAT);
        let mut from = 1;
        tell("sendfile", libc::sendfile(other, file, &mut from, 4) as i64);
        println!("{} up to {from}", text("other"));
        let (mut start, mut end) = (0i64, 10i64);
        tell(
            "copy_file_range",
            libc::syscall(
                libc::SYS_copy_file_range,
                file,
                &mut start,
                other,
                &mut end,
                6,
                0,
            ),
        );
        tell("its size", libc::lseek(other, 0, SEEK_END));
        tell("fallocate", libc::fallocate(other, 0, 0, 100));
        tell("its size", libc::lseek(other, 0, SEEK_END));
    }
}

/// Operations that would end beyond the last possible offset.
unsafe fn last_offsets(file: i32) {
    unsafe {
        let mut bytes = [1u8; 8];
        let at = bytes.as_mut_ptr().cast();
        let last = i64::MAX;
        tell(
            "pread to the last offset",
            libc::pread(file, at, 8, last - 8) as i64,
        );
        tell("pread beyond it", libc::pread(file, at, 8, last - 7) as i64);
        tell(
            "pread of nothing there",
            libc::pread(file, at, 0, last) as i64,
        );
        tell(
            "pwrite beyond it",
            libc::pwrite(file, at, 8, last - 7) as i64,
        );
        tell(
            "pwrite of nothing there",
            libc::pwrite(file, at, 0, last) as i64,
        );
        let end = libc::lseek(file, 0, SEEK_END);
        libc::lseek(file, last, SEEK_SET);
        tell("write there", libc::write(file, at, 1) as i64);
        libc::lseek(file, end, SEEK_SET);
        let copy = |mut from: i64, mut to: i64, count: usize| {
            libc::copy_file_range(file, &mut from, file, &mut to, count, 0) as i64
        };
        tell("copied onto itself", copy(0, 4, 5));
        tell("copied beside itself", copy(0, 4, 4));
        tell(
            "all but what overflows",
            copy(0, end, usize::MAX - end as usize),
        );
        tell("what overflows", copy(1, end, usize::MAX));
        tell("copied beyond the last offset", copy(0, last, 1));
        // In the program's own image: a stack may end so near the end of user space that the same
        // vector is EFAULT.
        static ROOM: [AtomicU8; 256] = [const { AtomicU8::new(0) }; 256];
        let long = libc::iovec {
            iov_base: ROOM.as_ptr().cast_mut().cast(),
            iov_len: 1 << 60,
        };
        tell(
            "a piece longer than all memory",
            libc::readv(file, &long, 1) as i64,
        );
        tell("two", libc::readv(file, [long, long].as_ptr(), 2) as i64);
        libc::ftruncate(file, end);
    }
}

/// ioctl(2) on any file: the block size (FIGETBSZ), and the bytes that it occupies (FIOQSIZE).
unsafe fn sizes() {
    const BLOCK: u32 = 2;
    const BYTES: u32 = 0x5460;
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let file = open(c"sized", O_RDWR | O_CREAT);
        write(file, &[1; 5000]);
        for (name, file) in [
            ("file", file),
            ("directory", open(c".", O_RDONLY)),
            ("pipe", ends[0]),
            ("socket", libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)),
            ("event", libc::eventfd(0, 0)),
            ("/proc", open(c"/proc/self/status", O_RDONLY)),
            ("/sys", open(c"/sys/kernel", O_RDONLY)),
        ] {
            let mut block = -1i32;
            tell(name, libc::ioctl(file, BLOCK as _, &mut block));
            println!("  {block}");
            let mut bytes = -1i64;
            let told = libc::ioctl(file, BYTES as _, &mut bytes);
            tell("  bytes", told);
            if name == "file" {
                println!("  {bytes}");
            }
        }
        tell("nowhere", libc::ioctl(file, BLOCK as _, 8));
        tell("nowhere", libc::ioctl(file, BYTES as _, 8));
        let epoll = libc::epoll_create1(0);
        tell("epoll", libc::ioctl(epoll, 0x5678, 0));
    }
}

unsafe fn descriptors() {
    unsafe {
        let file = open(c"descriptors", O_RDWR | O_CREAT);
        tell(
            "dup2 onto itself",
            i64::from(libc::dup2(file, file) == file) - 1,
        );
        tell("dup3 onto itself", libc::dup3(file, file, 0));
        tell("dup2 of nothing", libc::dup2(99, 50));
        tell("dup2 too high", libc::dup2(file, 1 << 30));
        tell("from 40", libc::fcntl(file, libc::F_DUPFD, 40));
        tell(
            "from 40 again",
            libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 40),
        );
        tell("its flag", libc::fcntl(41, libc::F_GETFD));
        println!(
            "mode {:o}",
            libc::fcntl(file, libc::F_GETFL) & libc::O_ACCMODE
        );
        tell("fcntl of nothing", libc::fcntl(99, libc::F_GETFD));
        tell("an odd command", libc::fcntl(file, 9999));
        hints(file);
        tell("flock", libc::flock(file, libc::LOCK_EX));
        let second = open(c"descriptors", O_RDWR);
        tell(
            "flock by another",
            libc::flock(second, libc::LOCK_EX | libc::LOCK_NB),
        );
    }
}

/// Write-lifetime hints: the inode keeps them.
unsafe fn hints(file: c_int) {
    const GET: c_int = 1035;
    const SET: c_int = 1036;
    let set = |what: &str, hint: u64| unsafe {
        tell(what, libc::fcntl(file, SET, &raw const hint));
    };
    let get = |what: &str, file: c_int| {
        let mut hint = 99u64;
        // SAFETY: the call reads or writes the number.
        tell(what, unsafe { libc::fcntl(file, GET, &raw mut hint) });
        println!("{hint}");
    };
    get("no hint", file);
    set("extreme", 5);
    set("more than that", 6);
    set("much more", 5 << 32);
    let nowhere = ptr::null::<u64>();
    tell("nowhere", unsafe { libc::fcntl(file, SET, nowhere) });
    get("by another", open(c"descriptors", O_RDONLY));
    set("none", 0);
    get("afterwards", file);
}
