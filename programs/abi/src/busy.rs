//! Files that are written and executed, and access to an inode other than by its path.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::{fs, mem, ptr, thread};

use libc::{O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, c_int};

use crate::{in_child, path, tell, tell_end, tell_ok};

const COPY: &CStr = c"running";
const F_SEAL_EXEC: c_int = 32;
const F_CREATED_QUERY: c_int = 1028;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value, and children end by _exit or exec.
    unsafe {
        programs();
        handles();
        seals();
        sealed_program();
        nobody_there();
    }
}

/// A file sealed against writing cannot be mapped shared and writable, and one so mapped cannot be
/// sealed.
unsafe fn seals() {
    unsafe {
        let file = libc::memfd_create(c"sealed".as_ptr(), libc::MFD_ALLOW_SEALING);
        libc::ftruncate(file, 8192);
        let map = |rights, kind| libc::mmap(ptr::null_mut(), 8192, rights, kind, file, 0);
        let (read, both) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
        let mapped = map(both, libc::MAP_SHARED);
        let seal = || libc::fcntl(file, libc::F_ADD_SEALS, libc::F_SEAL_WRITE);
        tell("seal what is mapped", seal());
        libc::munmap(mapped, 8192);
        let private = map(both, libc::MAP_PRIVATE);
        tell("seal", seal());
        tell_ok("map to write", map(both, libc::MAP_SHARED) as isize != -1);
        tell_ok("a private map", map(both, libc::MAP_PRIVATE) as isize != -1);
        let mapped = map(read, libc::MAP_PRIVATE);
        tell("the private one", libc::mprotect(mapped, 8192, both));
        libc::munmap(private, 8192);
        tell("seal again", seal());
        tell("write", libc::write(file, c"x".as_ptr().cast(), 1) as i64);
    }
}

/// F_SEAL_EXEC on an executable file also seals it against writing, even if the file became
/// executable after the call began.
unsafe fn sealed_program() {
    unsafe {
        let content = vec![1_u8; 8 << 20];
        let mut written = 0;
        for _ in 0..20 {
            let file = libc::memfd_create(c"program".as_ptr(), libc::MFD_ALLOW_SEALING);
            libc::fchmod(file, 0o666);
            let sealer = AtomicI32::new(0);
            thread::scope(|scope| {
                // While this write lasts, nobody else changes the file.
                scope.spawn(|| libc::write(file, content.as_ptr().cast(), content.len()));
                let mut stat: libc::stat = mem::zeroed();
                while stat.st_size == 0 {
                    libc::fstat(file, &mut stat);
                    thread::yield_now();
                }
                scope.spawn(|| {
                    sealer.store(libc::gettid(), Release);
                    libc::fcntl(file, libc::F_ADD_SEALS, F_SEAL_EXEC);
                });
                while sealer.load(Acquire) == 0 || is_running(sealer.load(Acquire)) {
                    thread::yield_now();
                }
                libc::fchmod(file, 0o777);
            });
            let mut stat: libc::stat = mem::zeroed();
            libc::fstat(file, &mut stat);
            let writable = libc::pwrite(file, content.as_ptr().cast(), 1, 0) == 1;
            written += i64::from(stat.st_mode & 0o111 != 0 && writable);
            libc::close(file);
        }
        tell("programs that are written", written);
    }
}

/// Whether a thread of this process exists and does not sleep.
fn is_running(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('R'))
}

/// send reads its buffer even if there is no receiver.
unsafe fn nobody_there() {
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut to: libc::sockaddr_in = mem::zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_port = 9u16.to_be();
        to.sin_addr.s_addr = u32::to_be(0x7f00_0001);
        let len = size_of_val(&to) as u32;
        let send = |bytes: *const u8| {
            libc::sendto(socket, bytes.cast(), 10, 0, ptr::from_ref(&to).cast(), len) as i64
        };
        tell("not there", send(usize::MAX as *const u8));
    }
}

fn copy() {
    fs::copy("/proc/self/exe", "running").expect("there is room for a copy");
}

/// Prints the result of execve of the copy while it does not run.
unsafe fn execute() {
    unsafe {
        let arguments = [COPY.as_ptr(), ptr::null()];
        tell("execute", libc::execv(COPY.as_ptr(), arguments.as_ptr()));
    }
}

/// A running program cannot be written, and one that is open for writing cannot be executed.
unsafe fn programs() {
    unsafe {
        copy();
        let writer = libc::open(COPY.as_ptr(), O_WRONLY);
        tell_end("while it is written", in_child(|| execute()));
        libc::close(writer);
        let reader = libc::open(COPY.as_ptr(), O_RDONLY);
        // Without arguments the copy exits with status 2.
        let (go, gone) = (pipe(), pipe());
        let child = libc::fork();
        if child == 0 {
            // The copy waits for the end of its standard input.
            libc::dup2(go[0], 0);
            libc::dup2(gone[1], 1);
            libc::close(go[1]);
            libc::close(gone[0]);
            let arguments = [COPY.as_ptr(), c"wait".as_ptr(), ptr::null()];
            libc::execv(COPY.as_ptr(), arguments.as_ptr());
            libc::_exit(99);
        }
        let mut byte = 0u8;
        libc::read(gone[0], ptr::addr_of_mut!(byte).cast(), 1);
        tell("open to write", libc::open(COPY.as_ptr(), O_WRONLY));
        tell("open for both", libc::open(COPY.as_ptr(), O_RDWR));
        tell(
            "open and shorten",
            libc::open(COPY.as_ptr(), O_RDONLY | O_TRUNC),
        );
        tell("shorten", libc::truncate(COPY.as_ptr(), 0));
        tell_ok("open to read", libc::open(COPY.as_ptr(), O_RDONLY) >= 0);
        let map = |kind| {
            let read = libc::PROT_READ;
            libc::mmap(ptr::null_mut(), 4096, read, kind, reader, 0) as isize != -1
        };
        tell_ok("map", map(libc::MAP_SHARED));
        tell("remove", libc::unlink(COPY.as_ptr()));
        copy();
        tell_ok(
            "another of that name",
            libc::truncate(COPY.as_ptr(), 0) == 0,
        );
        libc::close(go[1]);
        // A zombie's program does not count as running.
        let mut info = mem::zeroed();
        libc::waitid(
            libc::P_PID,
            child as u32,
            &mut info,
            libc::WEXITED | libc::WNOWAIT,
        );
        let old = c"/proc/self/fd/";
        let through = format!("{}{reader}\0", old.to_str().unwrap_or_default());
        let opened = libc::open(through.as_ptr().cast(), O_WRONLY);
        tell_ok("open to write when it has ended", opened >= 0);
        libc::waitpid(child, ptr::null_mut(), 0);
        libc::unlink(COPY.as_ptr());
    }
}

fn pipe() -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

/// Waits for the end of standard input; the copy does this.
pub fn wait() {
    // SAFETY: the buffers are one byte long.
    unsafe {
        libc::write(1, c"r".as_ptr().cast(), 1);
        let mut byte = 0u8;
        libc::read(0, ptr::addr_of_mut!(byte).cast(), 1);
    }
}

/// `struct file_handle` with room for its bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; 128],
}

unsafe fn handle_of(folder: c_int, name: &CStr, handle: &mut Handle, flags: c_int) -> i64 {
    let mut mount = 0;
    // SAFETY: the handle has the room that it declares.
    unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            folder,
            name.as_ptr(),
            ptr::from_mut(handle),
            &mut mount,
            flags,
        ) as i64
    }
}

unsafe fn open_handle(mount: c_int, handle: &Handle, flags: c_int) -> i64 {
    // SAFETY: the handle is complete.
    unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount,
            ptr::from_ref(handle),
            flags,
        ) as i64
    }
}

unsafe fn handles() {
    unsafe {
        let here = libc::AT_FDCWD;
        let mut handle = Handle {
            bytes: 0,
            kind: 0,
            data: [0; 128],
        };
        let file = libc::open(path(c"named"), O_RDWR | O_CREAT, 0o600);
        libc::write(file, c"content".as_ptr().cast(), 7);
        libc::symlink(path(c"named"), path(c"link"));
        tell("no room", handle_of(here, c"named", &mut handle, 0));
        println!("{} bytes, type {}", handle.bytes, handle.kind);
        handle.bytes = 129;
        tell("too much room", handle_of(here, c"named", &mut handle, 0));
        handle.bytes = 128;
        tell("nothing there", handle_of(here, c"none", &mut handle, 0));
        tell("no path", handle_of(here, c"", &mut handle, 0));
        tell("odd flags", handle_of(here, c"named", &mut handle, 1 << 16));
        tell(
            "in procfs",
            handle_of(here, c"/proc/self/stat", &mut handle, 0),
        );
        let empty = libc::AT_EMPTY_PATH;
        tell("of a descriptor", handle_of(file, c"", &mut handle, empty));
        let mut link = handle;
        link.bytes = 128;
        tell("of a link", handle_of(here, c"link", &mut link, 0));
        println!("another: {}", link.data != handle.data);
        tell("open the link", open_handle(here, &link, O_RDONLY));
        tell_ok("the place of it", open_handle(here, &link, O_PATH) >= 0);
        let mut followed = handle;
        followed.bytes = 128;
        let follow = libc::AT_SYMLINK_FOLLOW;
        tell("followed", handle_of(here, c"link", &mut followed, follow));
        println!("the same: {}", followed.data[..12] == handle.data[..12]);
        libc::rename(path(c"named"), path(c"renamed"));
        let opened = open_handle(here, &handle, O_RDONLY) as c_int;
        tell_ok("open", opened >= 0);
        let mut text = [0u8; 16];
        let count = libc::read(opened, text.as_mut_ptr().cast(), 16);
        println!("{}", text[..count.max(0) as usize].escape_ascii());
        tell("an odd descriptor", open_handle(999, &handle, O_RDONLY));
        let devices = libc::open(path(c"/dev"), O_RDONLY);
        tell("elsewhere", open_handle(devices, &handle, O_RDONLY));
        let mut bad = handle;
        bad.bytes = 0;
        tell("no bytes", open_handle(here, &bad, O_RDONLY));
        bad.bytes = 200;
        tell("too many bytes", open_handle(here, &bad, O_RDONLY));
        let mut folder = handle;
        folder.bytes = 128;
        tell("of a folder", handle_of(here, c".", &mut folder, 0));
        tell("to write", open_handle(here, &folder, O_RDWR));
        tell_ok("to read", open_handle(here, &folder, O_RDONLY) >= 0);
        for bit in 24..32 {
            let odd = open_handle(here, &handle, O_RDONLY | 1 << bit) as c_int;
            let flags = libc::fcntl(odd, libc::F_GETFL) & (libc::O_ACCMODE | 1 << bit);
            let created = libc::fcntl(odd, F_CREATED_QUERY);
            println!("odd flag {bit}: {flags:#x}, created {created}");
            let writer = libc::open(path(c"renamed"), O_RDWR);
            tell_ok("a writer", writer >= 0);
            libc::close(writer);
            libc::close(odd);
        }
        let made = open_handle(here, &handle, O_CREAT | O_RDWR);
        tell_ok("made", made >= 0);
        libc::close(made as c_int);
        let once = O_CREAT | libc::O_EXCL;
        tell("made once", open_handle(here, &handle, once));
        let folders = O_CREAT | libc::O_DIRECTORY;
        tell("a made folder", open_handle(here, &folder, folders));
        let status = in_child(|| {
            libc::setuid(1000);
            tell("without the right", open_handle(here, &handle, O_RDONLY));
        });
        tell_end("child", status);
        libc::close(file);
        libc::close(opened);
        libc::unlink(path(c"renamed"));
        libc::unlink(path(c"link"));
        tell("gone", open_handle(here, &handle, O_RDONLY));
    }
}
