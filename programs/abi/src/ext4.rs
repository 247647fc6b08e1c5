//! Files on ext4, in the current folder: inode flags, O_DIRECT, and shared mappings, finally on a
//! full disk.

use std::ffi::CStr;
use std::ptr::{null_mut, write_volatile};

use libc::{
    AT_FDCWD, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MAP_SHARED, MS_SYNC, O_APPEND, O_CREAT,
    O_DIRECT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, PROT_READ, PROT_WRITE, UTIME_NOW, UTIME_OMIT,
    c_int, timespec,
};

use crate::{path, tell, tell_ok};

pub const PAGE: usize = 4096;
const GETFLAGS: u64 = 0x8008_6601;
const SETFLAGS: u64 = 0x4008_6602;
const IMMUTABLE: u32 = 0x10;
pub const APPEND: u32 = 0x20;
/// A flag that no file system has.
const UNKNOWN: u32 = 0x8000_0000;

pub fn open(name: &'static CStr, flags: c_int) -> c_int {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::open(path(name), flags, 0o644) }
}

pub unsafe fn flags(file: c_int) -> u32 {
    let mut flags = 0u32;
    unsafe { libc::ioctl(file, GETFLAGS as _, &raw mut flags) };
    flags
}

pub unsafe fn set_flags(file: c_int, flags: u32) -> c_int {
    unsafe { libc::ioctl(file, SETFLAGS as _, &raw const flags) }
}

pub unsafe fn map(file: c_int, kind: c_int, len: usize) -> *mut u8 {
    let rights = PROT_READ | PROT_WRITE;
    unsafe { libc::mmap(null_mut(), len, rights, kind, file, 0).cast() }
}

pub fn touch(name: &'static CStr, time: timespec) -> c_int {
    let times = [time, time];
    // SAFETY: the name is NUL-terminated, and the array has two times.
    unsafe { libc::utimensat(AT_FDCWD, path(name), times.as_ptr(), 0) }
}

pub fn at(seconds: i64, nanoseconds: i64) -> timespec {
    timespec {
        tv_sec: seconds as _,
        tv_nsec: nanoseconds as _,
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to live memory of the right length.
    unsafe {
        fixed();
        directories();
        direct();
        mapped();
        fixed_while_mapped();
        privileges();
        crate::ext4_writes::run();
        full();
        second_user();
    }
}

/// Operations on an open file that gets one of the flags.
unsafe fn fixed() {
    unsafe {
        for (name, flag) in [("immutable", IMMUTABLE), ("append only", APPEND)] {
            println!("== {name}");
            let file = open(c"file", O_CREAT | O_RDWR);
            libc::write(file, b"12345678".as_ptr().cast(), 8);
            let before = flags(file);
            tell("set", set_flags(file, before | flag));
            println!("{:x}", flags(file) & !before);
            let written = libc::write(file, b"9".as_ptr().cast(), 1);
            tell("write", written as i64);
            tell("ftruncate", libc::ftruncate(file, 4));
            tell("fallocate", libc::fallocate(file, 0, 0, 100));
            tell("fallocate a hole", libc::fallocate(file, 3, 0, 4));
            tell("fchmod", libc::fchmod(file, 0o600));
            tell("F_SETFL", libc::fcntl(file, libc::F_SETFL, O_APPEND));
            let shared = map(file, MAP_SHARED, PAGE);
            tell("mmap", if shared.cast() == MAP_FAILED { -1 } else { 0 });
            libc::close(file);
            for (how, flags) in [
                ("for reading", O_RDONLY),
                ("for writing", O_WRONLY),
                ("for appending", O_WRONLY | O_APPEND),
                ("to empty it", O_WRONLY | O_APPEND | O_TRUNC),
            ] {
                let opened = open(c"file", flags);
                tell_ok(how, opened >= 0);
                libc::close(opened);
            }
            let name = path(c"file");
            tell("access", libc::access(name, libc::W_OK));
            tell("truncate", libc::truncate(name, 2));
            tell("chown", libc::chown(name, 1, 1));
            tell("the time now", touch(c"file", at(0, UTIME_NOW)));
            tell("another time", touch(c"file", at(7, 0)));
            tell("no time", touch(c"file", at(0, UTIME_OMIT)));
            tell("link", libc::link(name, path(c"other")));
            tell("rename", libc::rename(name, path(c"other")));
            tell("unlink", libc::unlink(name));
            let value = b"1";
            let attribute = path(c"user.one");
            tell(
                "setxattr",
                libc::setxattr(name, attribute, value.as_ptr().cast(), 1, 0),
            );
            let file = open(c"file", O_RDONLY);
            tell("an unknown flag", set_flags(file, before | UNKNOWN));
            tell("clear", set_flags(file, before));
            tell("unlink", libc::unlink(name));
            libc::close(file);
        }
    }
}

/// Names in folders with one of the flags.
unsafe fn directories() {
    unsafe {
        for (name, flag) in [("immutable", IMMUTABLE), ("append only", APPEND)] {
            println!("== a folder that is {name}");
            libc::mkdir(path(c"folder"), 0o755);
            libc::close(open(c"folder/old", O_CREAT | O_WRONLY));
            let folder = open(c"folder", O_RDONLY);
            let before = flags(folder);
            tell("set", set_flags(folder, before | flag));
            let new = open(c"folder/new", O_CREAT | O_WRONLY);
            tell_ok("create", new >= 0);
            tell("mkdir", libc::mkdir(path(c"folder/in"), 0o755));
            tell("unlink", libc::unlink(path(c"folder/old")));
            tell(
                "rename",
                libc::rename(path(c"folder/old"), path(c"folder/now")),
            );
            tell("rmdir", libc::rmdir(path(c"folder")));
            tell("clear", set_flags(folder, before));
            for name in [c"folder/new", c"folder/old"] {
                libc::unlink(path(name));
            }
            libc::rmdir(path(c"folder/in"));
            tell("rmdir", libc::rmdir(path(c"folder")));
            libc::close(new);
            libc::close(folder);
        }
    }
}

unsafe fn direct() {
    unsafe {
        println!("== O_DIRECT");
        let file = open(c"direct", O_CREAT | O_RDWR | O_DIRECT);
        tell_ok("open", file >= 0);
        let cached = open(c"direct", O_RDWR);
        let memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS, 4 * PAGE);
        memory.write_bytes(33, 4 * PAGE);
        let write = |from: *mut u8, len, at| libc::pwrite(file, from.cast(), len, at) as i64;
        tell("odd length", write(memory, 100, 0));
        tell("odd position", write(memory, 512, 100));
        tell("odd memory", write(memory.add(1), 512, 0));
        tell("pages", write(memory, 3 * PAGE, 0));
        libc::pwrite(cached, [44u8].as_ptr().cast(), 1, 5);
        let read = |to: *mut u8, len, at| libc::pread(file, to.cast(), len, at) as i64;
        tell("read", read(memory, PAGE, 0));
        println!("{} {}", *memory.add(4), *memory.add(5));
        *memory.add(7) = 55;
        tell("a page", write(memory, PAGE, 0));
        let mut byte = 0u8;
        libc::pread(cached, (&raw mut byte).cast(), 1, 7);
        println!("{byte}");
        tell("over the end", read(memory, 4 * PAGE, 0));
        tell("at the end", read(memory, PAGE, 3 * PAGE as i64));
        libc::close(file);
        libc::close(cached);
        libc::unlink(path(c"direct"));
    }
}

/// A write through a mapping changes the modification time.
unsafe fn mapped() {
    unsafe {
        println!("== mapped");
        let file = open(c"mapped", O_CREAT | O_RDWR);
        libc::ftruncate(file, 3 * PAGE as i64);
        libc::fsync(file);
        tell("time", touch(c"mapped", at(1000, 0)));
        let memory = map(file, MAP_SHARED, 3 * PAGE);
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(file, &mut stat);
        tell_ok("read only, the time is old", stat.st_mtime == 1000);
        write_volatile(memory.add(PAGE), 1);
        tell("msync", libc::msync(memory.cast(), 3 * PAGE, MS_SYNC));
        libc::fstat(file, &mut stat);
        tell_ok("written, it is new", stat.st_mtime > 1000);
        tell_ok("and that of the inode", stat.st_ctime > 1000);
        libc::munmap(memory.cast(), 3 * PAGE);
        libc::close(file);
        libc::unlink(path(c"mapped"));
    }
}

/// Operations that remove the file capabilities of a program.
unsafe fn privileges() {
    unsafe {
        println!("== privileges");
        let name = path(c"program");
        let file = open(c"program", O_CREAT | O_RDWR);
        libc::ftruncate(file, PAGE as i64);
        let memory = map(file, MAP_SHARED, PAGE);
        // Revision 2, with CAP_NET_RAW permitted.
        let value: [u32; 5] = [0x0200_0000, 1 << 13, 0, 0, 0];
        let attribute = c"security.capability".as_ptr();
        for what in [
            "nothing",
            "write",
            "ftruncate",
            "fallocate",
            "chown",
            "chmod",
            "mapped",
        ] {
            let from = value.as_ptr().cast();
            let set = libc::setxattr(name, attribute, from, size_of_val(&value), 0);
            tell("set", set);
            match what {
                "write" => tell(what, libc::pwrite(file, b"1".as_ptr().cast(), 1, 0) as i64),
                "ftruncate" => tell(what, libc::ftruncate(file, PAGE as i64)),
                "fallocate" => tell(what, libc::fallocate(file, 0, 0, 1)),
                "chown" => tell(what, libc::fchown(file, 0, 0)),
                "chmod" => tell(what, libc::fchmod(file, 0o755)),
                "mapped" => {
                    write_volatile(memory, 2);
                    tell(what, libc::msync(memory.cast(), PAGE, MS_SYNC));
                }
                _ => {}
            }
            tell(
                "left",
                libc::getxattr(name, attribute, null_mut(), 0) as i64,
            );
        }
        libc::munmap(memory.cast(), PAGE);
        libc::close(file);
        libc::unlink(name);
    }
}

/// Prints the signal that ends a child which writes this many pages.
unsafe fn written_by_child(memory: *mut u8, pages: usize) {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            for page in 0..pages {
                write_volatile(memory.add(page * PAGE), 2);
            }
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!("the writer: signal {}", libc::WTERMSIG(status));
    }
}

/// A write to a mapped page of a file that has become immutable: SIGBUS.
unsafe fn fixed_while_mapped() {
    unsafe {
        println!("== immutable while it is mapped");
        let file = open(c"fixed", O_CREAT | O_RDWR);
        libc::ftruncate(file, 2 * PAGE as i64);
        let memory = map(file, MAP_SHARED, 2 * PAGE);
        written_by_child(memory, 1);
        let before = flags(file);
        tell("set", set_flags(file, before | IMMUTABLE));
        written_by_child(memory.add(PAGE), 1);
        tell("clear", set_flags(file, before));
        written_by_child(memory.add(PAGE), 1);
        libc::munmap(memory.cast(), 2 * PAGE);
        libc::close(file);
        libc::unlink(path(c"fixed"));
    }
}

/// A write to a mapped hole on a full disk: SIGBUS.
unsafe fn full() {
    unsafe {
        println!("== full");
        const HOLE: usize = 4 << 20;
        let sparse = open(c"sparse", O_CREAT | O_RDWR);
        libc::ftruncate(sparse, HOLE as i64);
        let memory = map(sparse, MAP_SHARED, HOLE);
        let filler = open(c"filler", O_CREAT | O_WRONLY);
        let block = [1u8; PAGE];
        while libc::write(filler, block.as_ptr().cast(), PAGE) == PAGE as isize {}
        libc::fsync(filler);
        while libc::write(filler, block.as_ptr().cast(), PAGE) == PAGE as isize {}
        written_by_child(memory, HOLE / PAGE);
        tell("fsync", libc::fsync(sparse));
        libc::close(filler);
        libc::unlink(path(c"filler"));
        libc::sync();
        write_volatile(memory.add(HOLE - PAGE), 3);
        tell("msync with room", libc::msync(memory.cast(), HOLE, MS_SYNC));
        libc::munmap(memory.cast(), HOLE);
        libc::close(sparse);
        libc::unlink(path(c"sparse"));
    }
}

/// Operations that a second user may not do.
unsafe fn second_user() {
    unsafe {
        println!("== a second user");
        let file = open(c"own", O_CREAT | O_RDWR);
        libc::fchown(file, 1000, 1000);
        let other = open(c"other", O_CREAT | O_RDWR);
        libc::fchmod(file, 0o6755);
        libc::ftruncate(file, PAGE as i64);
        let memory = map(file, MAP_SHARED, PAGE);
        let before = flags(file);
        libc::setgroups(0, null_mut());
        libc::setgid(1000);
        libc::setuid(1000);
        tell("no dump", set_flags(file, before | 0x40));
        tell("append only", set_flags(file, before | APPEND));
        tell("of another", set_flags(other, before | 0x40));
        let mut stat: libc::stat = std::mem::zeroed();
        write_volatile(memory, 1);
        libc::msync(memory.cast(), PAGE, MS_SYNC);
        libc::fstat(file, &mut stat);
        println!("mapped: {:o}", stat.st_mode);
        tell("write", libc::write(file, b"1".as_ptr().cast(), 1) as i64);
        libc::fstat(file, &mut stat);
        println!("written: {:o}", stat.st_mode);
    }
}
