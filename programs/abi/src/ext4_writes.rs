//! Effects of writes on ext4, in the current folder: times, allocated blocks, and the bytes beyond
//! the end of a file.

use std::ffi::CStr;
use std::ptr::{null, null_mut, write_volatile};

use libc::{
    AT_FDCWD, AT_SYMLINK_FOLLOW, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, MS_SYNC, O_APPEND,
    O_CREAT, O_RDWR, O_TMPFILE, O_WRONLY, POSIX_FADV_DONTNEED, PROT_READ, PROT_WRITE, c_int, iovec,
};

use crate::ext4::{APPEND, PAGE, at, flags, map, open, set_flags, touch};
use crate::{path, tell, tell_ok};

const RWF_DSYNC: c_int = 2;
const RWF_SYNC: c_int = 4;
const RWF_NOAPPEND: c_int = 0x20;
const MIB: usize = 1 << 20;

unsafe fn stat(file: c_int) -> libc::stat {
    unsafe {
        let mut stat = std::mem::zeroed();
        libc::fstat(file, &mut stat);
        stat
    }
}

unsafe fn write_with(file: c_int, flags: c_int) -> i64 {
    let mut byte = 1u8;
    let piece = iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    unsafe { libc::pwritev2(file, &piece, 1, 0, flags) as i64 }
}

/// Runs this part.
pub unsafe fn run() {
    unsafe {
        times();
        flagged();
        place();
        tails();
        names();
        sockets();
        attributes();
    }
}

/// Binds a socket to a path; returns the socket.
unsafe fn bound(name: &[u8]) -> c_int {
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as _;
        for (to, from) in address.sun_path.iter_mut().zip(name) {
            *to = *from as _;
        }
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        let len = size_of_val(&address) as _;
        tell("bind", libc::bind(socket, (&raw const address).cast(), len));
        socket
    }
}

/// A socket whose path was unlinked keeps its inode.
unsafe fn sockets() {
    unsafe {
        println!("== sockets");
        let first = bound(b"first");
        tell("unlink", libc::unlink(path(c"first")));
        let second = bound(b"second");
        libc::close(first);
        libc::close(second);
        tell("unlink", libc::unlink(path(c"second")));
    }
}

/// Write-back does not change the file's times.
unsafe fn times() {
    unsafe {
        println!("== times of what was written");
        let file = open(c"late", O_CREAT | O_RDWR);
        libc::write(file, b"0123456789".as_ptr().cast(), 10);
        tell("an old time", touch(c"late", at(1000, 0)));
        libc::sync();
        println!("{}", stat(file).st_mtime);
        tell("no bytes", libc::write(file, null(), 0) as i64);
        libc::sync();
        println!("{}", stat(file).st_mtime);
        libc::write(file, b"0123456789".as_ptr().cast(), 10);
        let before = stat(file);
        libc::usleep(50_000);
        libc::sync();
        let after = stat(file);
        let same = before.st_ctime == after.st_ctime && before.st_ctime_nsec == after.st_ctime_nsec;
        tell_ok("that of the inode stays", same);
        libc::close(file);
        libc::unlink(path(c"late"));
    }
}

/// Calls pwritev2(2) with flags.
unsafe fn flagged() {
    unsafe {
        println!("== flags of a write");
        let file = open(c"flagged", O_CREAT | O_RDWR);
        tell("dsync", write_with(file, RWF_DSYNC));
        tell("sync", write_with(file, RWF_SYNC));
        let before = flags(file);
        tell("append only", set_flags(file, before | APPEND));
        let other = open(c"flagged", O_WRONLY | O_APPEND);
        tell("no append, opened before", write_with(file, RWF_NOAPPEND));
        tell("no append", write_with(other, RWF_NOAPPEND));
        tell("clear", set_flags(file, before));
        tell("no append", write_with(other, RWF_NOAPPEND));
        println!("{}", stat(file).st_size);
        libc::close(other);
        libc::close(file);
        libc::unlink(path(c"flagged"));
    }
}

/// Operations that need no space.
unsafe fn place() {
    unsafe {
        println!("== place");
        let file = open(c"place", O_CREAT | O_RDWR);
        let memory = map(-1, MAP_PRIVATE | MAP_ANONYMOUS, 4 * MIB);
        memory.write_bytes(1, 4 * MIB);
        tell("write", libc::write(file, memory.cast(), 4 * MIB) as i64);
        tell("ftruncate", libc::ftruncate(file, MIB as i64));
        libc::fsync(file);
        let blocks = stat(file).st_blocks;
        tell_ok("the rest is free", (2048..2200).contains(&blocks));
        tell("ftruncate", libc::ftruncate(file, 0));
        libc::munmap(memory.cast(), 4 * MIB);
        tell(
            "no memory",
            libc::pwrite(file, memory.cast(), 4 * MIB, 0) as i64,
        );
        libc::fsync(file);
        println!("{} {}", stat(file).st_size, stat(file).st_blocks);
        libc::close(file);
        libc::unlink(path(c"place"));
    }
}

/// Bytes stored through a mapping beyond the end do not appear when the file grows.
unsafe fn tails() {
    unsafe {
        println!("== behind the end");
        for how in ["ftruncate", "pwrite", "fallocate"] {
            for is_kept in [true, false] {
                let file = open(c"tail", O_CREAT | O_RDWR);
                libc::write(file, [5u8; 50].as_ptr().cast(), 50);
                let memory = libc::mmap(
                    null_mut(),
                    PAGE,
                    PROT_READ | PROT_WRITE,
                    MAP_SHARED,
                    file,
                    0,
                );
                write_volatile(memory.cast::<u8>().add(100), 7);
                write_volatile(memory.cast::<u8>().add(2000), 7);
                libc::msync(memory, PAGE, MS_SYNC);
                libc::munmap(memory, PAGE);
                if !is_kept {
                    libc::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
                }
                match how {
                    "ftruncate" => tell(how, libc::ftruncate(file, 3000)),
                    "pwrite" => tell(
                        how,
                        libc::pwrite(file, [6u8].as_ptr().cast(), 1, 3000) as i64,
                    ),
                    _ => tell(how, libc::fallocate(file, 0, 0, 3000)),
                }
                let mut bytes = [9u8; 3000];
                libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), 0);
                println!("{} {} {}", bytes[49], bytes[100], bytes[2000]);
                libc::close(file);
                libc::unlink(path(c"tail"));
            }
        }
    }
}

/// A file without a name (O_TMPFILE) can be linked once.
unsafe fn names() {
    unsafe {
        println!("== a name");
        let file = open(c".", O_TMPFILE | O_RDWR);
        let own = std::ffi::CString::new(format!("/proc/self/fd/{file}")).unwrap();
        for _ in 0..2 {
            let link = |name: &'static CStr| {
                libc::linkat(
                    AT_FDCWD,
                    own.as_ptr(),
                    AT_FDCWD,
                    path(name),
                    AT_SYMLINK_FOLLOW,
                )
            };
            tell("linkat", link(c"named"));
            tell("unlink", libc::unlink(path(c"named")));
        }
        libc::close(file);
    }
}

/// The attributes that flistxattr(2) lists for root, and for a user.
unsafe fn attributes() {
    unsafe {
        println!("== attributes");
        let file = open(c"attributes", O_CREAT | O_RDWR);
        for name in [c"trusted.one", c"user.two"] {
            let value = b"1".as_ptr().cast();
            tell("set", libc::fsetxattr(file, path(name), value, 1, 0));
        }
        tell("root", libc::flistxattr(file, null_mut(), 0) as i64);
        let child = libc::fork();
        if child == 0 {
            libc::setuid(1000);
            tell("a user", libc::flistxattr(file, null_mut(), 0) as i64);
            libc::_exit(0);
        }
        libc::waitpid(child, null_mut(), 0);
        libc::close(file);
        libc::unlink(path(c"attributes"));
    }
}
