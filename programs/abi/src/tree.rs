//! The tree of names, and files without names: limits of openat2, O_TMPFILE, sizes of a tmpfs, tee,
//! large folders.

use std::ffi::{CStr, CString};
use std::mem;
use std::ptr;

use libc::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_EXCL, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, c_int};

use crate::{tell, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        bounds();
        unnamed();
        sizes();
        pipes();
        writes();
        sockets();
        folder();
    }
}

#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
    more: u64,
}

unsafe fn open2(folder: c_int, path: &CStr, flags: c_int, resolve: u64) -> i64 {
    unsafe { open_how(folder, path, flags as u64, 0, resolve, 24, 0) }
}

unsafe fn open_how(
    folder: c_int,
    path: &CStr,
    flags: u64,
    mode: u64,
    resolve: u64,
    size: usize,
    more: u64,
) -> i64 {
    let how = How {
        flags,
        mode,
        resolve,
        more,
    };
    unsafe { libc::syscall(libc::SYS_openat2, folder, path.as_ptr(), &how, size) as i64 }
}

unsafe fn tell_opened(what: &str, file: i64) {
    tell_ok(what, file >= 0);
    if file >= 0 {
        unsafe { libc::close(file as c_int) };
    }
}

unsafe fn make(path: &CStr) {
    unsafe {
        let file = libc::open(path.as_ptr(), O_CREAT | O_RDWR, 0o600);
        libc::write(file, c"text".as_ptr().cast(), 4);
        libc::close(file);
    }
}

unsafe fn bounds() {
    const NO_XDEV: u64 = 1;
    const NO_MAGICLINKS: u64 = 2;
    const NO_SYMLINKS: u64 = 4;
    const BENEATH: u64 = 8;
    const IN_ROOT: u64 = 16;
    unsafe {
        libc::mkdir(c"top".as_ptr(), 0o755);
        libc::mkdir(c"top/inner".as_ptr(), 0o755);
        make(c"outside");
        make(c"top/file");
        libc::symlink(c"file".as_ptr(), c"top/link".as_ptr());
        libc::symlink(c"../outside".as_ptr(), c"top/up".as_ptr());
        libc::symlink(c"/file".as_ptr(), c"top/absolute".as_ptr());
        let top = libc::open(c"top".as_ptr(), O_PATH | O_DIRECTORY);
        for (name, path) in [
            ("file", c"file"),
            ("link", c"link"),
            ("inner/../file", c"inner/../file"),
            ("../outside", c"../outside"),
            ("up", c"up"),
            ("/file", c"/file"),
            ("absolute", c"absolute"),
            ("..", c".."),
        ] {
            for (how, resolve) in [
                ("free", 0),
                ("beneath", BENEATH),
                ("in root", IN_ROOT),
                ("no links", NO_SYMLINKS),
            ] {
                tell_opened(
                    &format!("{name} {how}"),
                    open2(top, path, O_RDONLY, resolve),
                );
            }
        }
        let own = c"/proc/self/exe";
        tell_opened("magic", open2(AT_FDCWD, own, O_RDONLY, 0));
        tell_opened("no magic", open2(AT_FDCWD, own, O_RDONLY, NO_MAGICLINKS));
        tell_opened("no links", open2(AT_FDCWD, own, O_RDONLY, NO_SYMLINKS));
        let root = c"/";
        let version = c"proc/version";
        let root = libc::open(root.as_ptr(), O_PATH | O_DIRECTORY);
        tell_opened("across", open2(root, version, O_RDONLY, 0));
        tell_opened("not across", open2(root, version, O_RDONLY, NO_XDEV));
        let here = libc::open(c"/proc".as_ptr(), O_PATH | O_DIRECTORY);
        tell_opened("not across upwards", open2(here, c"..", O_RDONLY, NO_XDEV));
        tell_opened("not by magic", open2(here, c"self/cwd", O_RDONLY, NO_XDEV));
        libc::dup2(libc::open(c"/proc/version".as_ptr(), O_RDONLY), 77);
        let same = c"self/fd/77";
        tell_opened("magic at home", open2(here, same, O_RDONLY, NO_XDEV));
        let made = (O_CREAT | O_RDWR) as u64;
        let once = made | O_EXCL as u64;
        for (how, flags) in [("made", made), ("made once", once)] {
            let opened = open_how(root, c"proc", flags, 0o600, NO_XDEV, 24, 0);
            tell_opened(how, opened);
        }
        let (tmpfs, none) = (c"tmpfs".as_ptr(), ptr::null());
        libc::mkdir(c"mounted".as_ptr(), 0o755);
        libc::mount(tmpfs, c"mounted".as_ptr(), tmpfs, 0, none);
        libc::symlink(c"/".as_ptr(), c"mounted/leap".as_ptr());
        libc::symlink(c"/made".as_ptr(), c"mounted/maker".as_ptr());
        let mounted = libc::open(c"mounted".as_ptr(), O_PATH | O_DIRECTORY);
        tell_opened("not by a leap", open2(mounted, c"leap", O_RDONLY, NO_XDEV));
        let opened = open_how(mounted, c"maker", made, 0o600, NO_XDEV, 24, 0);
        tell_opened("not made by a leap", opened);
        libc::close(mounted);
        libc::umount2(c"mounted".as_ptr(), libc::MNT_DETACH);
        tell_opened("both", open2(top, c"file", O_RDONLY, BENEATH | IN_ROOT));
        tell_opened("odd bounds", open2(top, c"file", O_RDONLY, 64));
        tell_opened("a mode", open_how(top, c"file", 0, 0o600, 0, 24, 0));
        tell_opened("odd flags", open_how(top, c"file", 1 << 40, 0, 0, 24, 0));
        tell_opened("odd old flags", open_how(top, c"file", 4, 0, 0, 24, 0));
        tell_opened("small", open_how(top, c"file", 0, 0, 0, 16, 0));
        tell_opened("large", open_how(top, c"file", 0, 0, 0, 32, 0));
        tell_opened("larger", open_how(top, c"file", 0, 0, 0, 32, 1));
        let path_and_more = (O_PATH | O_RDWR) as u64;
        tell_opened(
            "a path to write",
            open_how(top, c"file", path_and_more, 0, 0, 24, 0),
        );
    }
}

unsafe fn unnamed() {
    unsafe {
        let here = c".".as_ptr();
        let file = libc::open(here, libc::O_TMPFILE | O_RDWR, 0o640);
        tell_ok("without a name", file >= 0);
        tell(
            "write",
            libc::write(file, c"hello".as_ptr().cast(), 5) as i64,
        );
        let mut stat: libc::stat = mem::zeroed();
        libc::fstat(file, &mut stat);
        println!(
            "mode {:o} links {} size {}",
            stat.st_mode, stat.st_nlink, stat.st_size
        );
        let from = CString::new(format!("/proc/self/fd/{file}")).unwrap();
        let link = |name: &CStr| {
            libc::linkat(
                AT_FDCWD,
                from.as_ptr(),
                AT_FDCWD,
                name.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        };
        tell("named", link(c"named"));
        tell("named again", link(c"named2"));
        libc::fstat(file, &mut stat);
        println!("links {}", stat.st_nlink);
        let file = libc::open(here, libc::O_TMPFILE | O_RDWR | O_EXCL, 0o600);
        let from = CString::new(format!("/proc/self/fd/{file}")).unwrap();
        tell(
            "never named",
            libc::linkat(
                AT_FDCWD,
                from.as_ptr(),
                AT_FDCWD,
                c"named3".as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            ),
        );
        tell(
            "read only",
            libc::open(here, libc::O_TMPFILE | O_RDONLY, 0o600),
        );
        tell(
            "no folder",
            libc::open(c"outside".as_ptr(), libc::O_TMPFILE | O_RDWR, 0o600),
        );
        tell(
            "not there",
            libc::open(c"nowhere".as_ptr(), libc::O_TMPFILE | O_RDWR, 0o600),
        );
    }
}

unsafe fn mount(options: &CStr) -> c_int {
    unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"small".as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    }
}

unsafe fn sizes() {
    unsafe {
        libc::mkdir(c"small".as_ptr(), 0o755);
        tell("odd options", mount(c"size=nonsense"));
        tell("unknown options", mount(c"nonsense=1"));
        tell("mount", mount(c"size=64k,mode=750,uid=5,nr_inodes=4"));
        let mut stat: libc::stat = mem::zeroed();
        libc::stat(c"small".as_ptr(), &mut stat);
        println!("mode {:o} owner {}", stat.st_mode, stat.st_uid);
        let mut space: libc::statfs = mem::zeroed();
        libc::statfs(c"small".as_ptr(), &mut space);
        println!("blocks {} free {}", space.f_blocks, space.f_bfree);
        let file = libc::open(c"small/file".as_ptr(), O_CREAT | O_RDWR, 0o600);
        let block = vec![1u8; 100_000];
        tell(
            "write",
            libc::write(file, block.as_ptr().cast(), block.len()) as i64,
        );
        tell(
            "write more",
            libc::write(file, block.as_ptr().cast(), 1) as i64,
        );
        libc::statfs(c"small".as_ptr(), &mut space);
        println!("free {}", space.f_bfree);
        tell("allocate", libc::fallocate(file, 0, 0, 1 << 20));
        tell("shorten", libc::ftruncate(file, 32768));
        libc::statfs(c"small".as_ptr(), &mut space);
        println!("free {}", space.f_bfree);
        tell("a hole", libc::fallocate(file, 3, 0, 8192));
        libc::statfs(c"small".as_ptr(), &mut space);
        println!("free {}", space.f_bfree);
        for mode in [0x8, 0x10, 0x20] {
            tell(
                &format!("mode {mode:#x}"),
                libc::fallocate(file, mode, 0, 4096),
            );
        }
        for name in [c"small/a", c"small/b", c"small/c", c"small/d"] {
            let more = libc::open(name.as_ptr(), O_CREAT | O_RDWR, 0o600);
            tell_ok("a file", more >= 0);
            libc::close(more);
        }
        let remount = |options: &CStr| {
            libc::mount(
                ptr::null(),
                c"small".as_ptr(),
                ptr::null(),
                libc::MS_REMOUNT,
                options.as_ptr().cast(),
            )
        };
        tell("too small", remount(c"size=4k"));
        tell("larger", remount(c"size=1m"));
        libc::statfs(c"small".as_ptr(), &mut space);
        println!("blocks {}", space.f_blocks);
        libc::close(file);
        tell("unmount", libc::umount(c"small".as_ptr()));
    }
}

fn pipe() -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), O_NONBLOCK) };
    ends
}

unsafe fn read(what: &str, file: c_int) {
    let mut bytes = [0u8; 100];
    let count = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), 100) };
    match usize::try_from(count) {
        Ok(count) => println!("{what}: {:?}", String::from_utf8_lossy(&bytes[..count])),
        Err(_) => tell(what, -1),
    }
}

unsafe fn pipes() {
    unsafe {
        let (from, to) = (pipe(), pipe());
        tell("nothing to copy", libc::tee(from[0], to[1], 100, 0) as i64);
        libc::write(from[1], c"hello".as_ptr().cast(), 5);
        tell("copy", libc::tee(from[0], to[1], 100, 0) as i64);
        tell("copy a part", libc::tee(from[0], to[1], 2, 0) as i64);
        read("the copies", to[0]);
        read("the first", from[0]);
        tell("to itself", libc::tee(from[0], from[1], 1, 0) as i64);
        tell("the wrong end", libc::tee(from[1], to[1], 1, 0) as i64);
        let file = libc::open(c"outside".as_ptr(), O_RDWR);
        tell("a file", libc::tee(file, to[1], 1, 0) as i64);
        let piece = libc::iovec {
            iov_base: c"pages".as_ptr().cast_mut().cast(),
            iov_len: 5,
        };
        tell("vmsplice", libc::vmsplice(from[1], &piece, 1, 0) as i64);
        read("it came", from[0]);
        tell("to a file", libc::vmsplice(file, &piece, 1, 0) as i64);
        libc::close(from[1]);
        tell("the end", libc::tee(from[0], to[1], 1, 0) as i64);
        libc::close(to[0]);
    }
}

unsafe fn writes() {
    unsafe {
        let file = libc::open(c"appended".as_ptr(), O_CREAT | O_RDWR, 0o600);
        libc::write(file, c"12345".as_ptr().cast(), 5);
        let piece = libc::iovec {
            iov_base: c"more".as_ptr().cast_mut().cast(),
            iov_len: 4,
        };
        let write = |offset, flags| libc::pwritev2(file, &piece, 1, offset, flags) as i64;
        tell("append", write(0, libc::RWF_APPEND));
        println!("position {}", libc::lseek(file, 0, libc::SEEK_CUR));
        tell("append and move", write(-1, libc::RWF_APPEND));
        println!("position {}", libc::lseek(file, 0, libc::SEEK_CUR));
        tell("odd flags", write(0, 1 << 20));
        libc::lseek(file, 0, libc::SEEK_SET);
        read("all", file);
    }
}

unsafe fn sockets() {
    unsafe {
        let mut ends = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr());
        let file = libc::open(c"appended".as_ptr(), O_RDWR);
        let mut offset = 5;
        tell(
            "sendfile",
            libc::sendfile(ends[0], file, &mut offset, 4) as i64,
        );
        read("it came", ends[1]);
        println!("offset {offset}");
        let through = pipe();
        libc::write(ends[0], c"spliced".as_ptr().cast(), 7);
        let none = ptr::null_mut();
        tell(
            "from a socket",
            libc::splice(ends[1], none, through[1], none, 100, 0) as i64,
        );
        tell(
            "to a socket",
            libc::splice(through[0], none, ends[1], none, 100, 0) as i64,
        );
        read("it came back", ends[0]);
        tell(
            "with a position",
            libc::splice(ends[1], &mut offset, through[1], none, 1, 0) as i64,
        );
        tell("seek", libc::lseek(ends[0], 0, libc::SEEK_CUR));
        tell("allocate", libc::fallocate(ends[0], 0, 0, 1));
        tell(
            "copy",
            libc::copy_file_range(ends[0], none, file, none, 1, 0) as i64,
        );
        tell("shorten", libc::ftruncate(ends[0], 0));
        tell("sync", libc::fsync(ends[0]));
    }
}

unsafe fn folder() {
    const COUNT: usize = 20_000;
    unsafe {
        libc::mkdir(c"many".as_ptr(), 0o755);
        libc::chdir(c"many".as_ptr());
        for number in 0..COUNT {
            let name = CString::new(format!("file-with-a-number-{number}")).unwrap();
            libc::close(libc::open(name.as_ptr(), O_CREAT | O_RDWR, 0o600));
        }
        let count = || std::fs::read_dir(".").unwrap().count();
        println!("files {}", count());
        let mut removed = 0;
        for entry in std::fs::read_dir(".").unwrap() {
            removed += std::fs::remove_file(entry.unwrap().path()).is_ok() as usize;
        }
        println!("removed {removed}, left {}", count());
        libc::chdir(c"..".as_ptr());
    }
}
