//! System calls, and the objects that rows create.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::meter::Done;

/// Makes a system call, by the name of its number in `libc`, with arguments that convert by `as
/// usize`.
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        $crate::sys::system_call(libc::$name, &[$($argument as usize),*])
    };
}
pub(crate) use call;

/// Makes a system call. Rows pass only their own memory, which outlives the call.
pub fn system_call(number: libc::c_long, arguments: &[usize]) -> io::Result<usize> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f] = all;
    // SAFETY: the rows pass pointers to their own objects, which have the sizes that the calls
    // need.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result as usize),
    }
}

/// Creates `number` objects.
pub fn many<T>(number: usize, mut make: impl FnMut(usize) -> io::Result<T>) -> io::Result<Vec<T>> {
    (0..number).map(&mut make).collect()
}

/// Enables the loopback device.
pub fn bring_loopback_up() -> io::Result<()> {
    let socket = call!(SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0).map(owned)?;
    // struct ifreq: a name, and here the flags.
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
    request[libc::IFNAMSIZ..][..2].copy_from_slice(&flags.to_ne_bytes());
    call!(
        SYS_ioctl,
        socket.as_raw_fd(),
        libc::SIOCSIFFLAGS,
        request.as_ptr()
    )
    .map(drop)
}

/// The owner of a descriptor that a call has returned.
pub fn owned(fd: usize) -> OwnedFd {
    // SAFETY: a call has just created it, and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// Creates an eventfd with this value: readable unless that is zero.
pub fn eventfd(value: u32) -> io::Result<OwnedFd> {
    call!(SYS_eventfd2, value, libc::EFD_NONBLOCK).map(owned)
}

/// A pair of descriptors that `make` stores at the given address.
pub fn pair(make: impl FnOnce(*mut i32) -> io::Result<usize>) -> io::Result<[OwnedFd; 2]> {
    let mut fds = [0i32; 2];
    make(fds.as_mut_ptr())?;
    Ok(fds.map(|fd| owned(fd as usize)))
}

/// Creates a pipe with a buffer of `bytes`.
pub fn pipe(bytes: usize) -> io::Result<[OwnedFd; 2]> {
    let ends = pair(|fds| call!(SYS_pipe2, fds, 0))?;
    call!(SYS_fcntl, ends[0].as_raw_fd(), libc::F_SETPIPE_SZ, bytes)?;
    Ok(ends)
}

/// Transfers `bytes` bytes; `transfer` gets the number that remain and returns how many it has
/// done.
pub fn all(bytes: usize, mut transfer: impl FnMut(usize) -> io::Result<usize>) -> Done {
    let mut left = bytes;
    while left > 0 {
        match transfer(left)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            done => left -= done,
        }
    }
    Ok(())
}

/// Creates an unnamed file in memory.
pub fn memory_file(bytes: usize) -> io::Result<File> {
    let fd = owned(call!(SYS_memfd_create, c"sizes".as_ptr(), 0)?);
    let file = File::from(fd);
    file.set_len(bytes as u64)?;
    Ok(file)
}

/// A name as a C string.
pub fn name(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Reads a whole file into one buffer, without libc's wrappers.
pub fn read_whole(path: &CStr, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY)?;
    let mut total = 0;
    let done = loop {
        match call!(SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) {
            Ok(0) => break Ok(total),
            Ok(read) => total += read,
            Err(error) => break Err(error),
        }
    };
    call!(SYS_close, fd)?;
    done
}

/// Sets a limit in `/proc/sys`; a kernel without the file has no such limit.
pub fn set_sysctl(name: &str, value: &str) {
    let _ = fs::write(format!("/proc/sys/{name}"), value);
}

/// Lets the other threads and processes run until they wait.
pub fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

/// Starts a process that runs `child` and exits; returns its process ID.
pub fn fork(child: impl FnOnce()) -> io::Result<usize> {
    match call!(SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)? {
        0 => {
            child();
            exit(0)
        }
        pid => Ok(pid),
    }
}

/// Exits at once.
pub fn exit(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Waits for a child to end, or for a tracee to stop; for any if `pid` is -1.
pub fn wait(pid: isize) -> Done {
    call!(SYS_wait4, pid, ptr::null::<u8>(), libc::__WALL, 0).map(drop)
}

/// Sleeps until a signal, or the parent's end, kills this process.
fn pause_until_parent_ends() {
    let _ = call!(SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    loop {
        let _ = call!(SYS_ppoll, 0, 0, 0, 0, 0);
    }
}

/// Sleeping processes in a process group of their own, killed when dropped.
pub struct Crowd {
    pub pids: Vec<usize>,
}

impl Crowd {
    /// Starts `number` processes.
    pub fn new(number: usize) -> io::Result<Self> {
        let mut crowd = Self { pids: Vec::new() };
        for _ in 0..number {
            let pid = fork(pause_until_parent_ends)?;
            crowd.pids.push(pid);
            call!(SYS_setpgid, pid, crowd.group())?;
        }
        settle();
        Ok(crowd)
    }

    /// The process group's ID.
    pub fn group(&self) -> usize {
        self.pids.first().copied().unwrap_or_default()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = call!(SYS_kill, *pid, libc::SIGKILL);
            let _ = wait(*pid as isize);
        }
    }
}

/// The page size of all measured kernels.
pub const PAGE: usize = 4096;

/// Anonymous private memory, unmapped when dropped.
pub struct Region {
    pub base: usize,
    pub bytes: usize,
}

impl Region {
    /// Maps readable and writable memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Maps a file, shared.
    pub fn of_file(bytes: usize, file: &File) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(bytes: usize, flags: i32, fd: i32) -> io::Result<Self> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let base = call!(SYS_mmap, 0, bytes, prot, flags, fd, 0)?;
        Ok(Self { base, bytes })
    }

    /// Memory of small pages, all present.
    pub fn present(pages: usize) -> io::Result<Self> {
        let region = Self::new(pages * PAGE)?;
        region.advise(libc::MADV_NOHUGEPAGE)?;
        region.write();
        Ok(region)
    }

    /// Calls madvise on the whole region.
    pub fn advise(&self, advice: i32) -> Done {
        call!(SYS_madvise, self.base, self.bytes, advice).map(drop)
    }

    /// Calls mprotect on `bytes` bytes from an offset.
    pub fn protect(&self, offset: usize, bytes: usize, prot: i32) -> Done {
        call!(SYS_mprotect, self.base + offset, bytes, prot).map(drop)
    }

    /// Writes a byte in each page.
    pub fn write(&self) {
        for at in (0..self.bytes).step_by(PAGE) {
            self.write_at(at);
        }
    }

    /// Writes a byte.
    pub fn write_at(&self, offset: usize) {
        // SAFETY: the byte lies in this mapping, which nothing else uses.
        unsafe { ((self.base + offset) as *mut u8).write_volatile(1) };
    }

    /// Reads a byte in each page.
    pub fn read(&self) {
        for at in (0..self.bytes).step_by(PAGE) {
            // SAFETY: as above.
            unsafe { ((self.base + at) as *const u8).read_volatile() };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = call!(SYS_munmap, self.base, self.bytes);
    }
}
