//! System calls that the standard library does not offer.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use wire::user::User;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Mounts a file system; ignores errors.
pub fn mount(kind: &str, path: &str, options: &str) {
    let [Ok(kind), Ok(path), Ok(options)] = [kind, path, options].map(CString::new) else {
        return;
    };
    // SAFETY: the strings are NUL-terminated and outlive the call.
    unsafe {
        libc::mount(
            kind.as_ptr(),
            path.as_ptr(),
            kind.as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    };
}

/// Calls mount(2) with flags (MS_*).
pub fn mount_with(source: &str, path: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    mount_with_options(source, path, kind, flags, "")
}

/// Calls mount(2) with flags (MS_*) and options.
pub fn mount_with_options(
    source: &str,
    path: &str,
    kind: &str,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let [source, path, kind, options] = [
        CString::new(source)?,
        CString::new(path)?,
        CString::new(kind)?,
        CString::new(options)?,
    ];
    // SAFETY: the strings are NUL-terminated and outlive the call.
    let done = unsafe {
        libc::mount(
            source.as_ptr(),
            path.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    check(done).map(drop)
}

/// Mounts an overlay.
pub fn mount_overlay(path: &str, options: &str) -> io::Result<()> {
    let [path, options] = [CString::new(path)?, CString::new(options)?];
    // SAFETY: the strings are NUL-terminated and outlive the call.
    let done = unsafe {
        libc::mount(
            c"overlay".as_ptr(),
            path.as_ptr(),
            c"overlay".as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    };
    check(done).map(drop)
}

/// Sets the host name; ignores errors.
pub fn set_host_name(name: &str) {
    let name = name.trim();
    // SAFETY: pointer and length are the string's.
    unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) };
}

/// Changes to a directory that may be outside of the root.
pub fn change_directory(directory: &File) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::fchdir(directory.as_raw_fd()) }).map(drop)
}

/// Powers the machine off.
pub fn power_off() -> ! {
    // SAFETY: no memory is passed.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    std::process::exit(1);
}

/// The write end of the pipe that reports children.
static CHILD_SIGNAL: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_child(_: libc::c_int) {
    // SAFETY: write is safe in a signal handler, and the buffer is static.
    unsafe {
        libc::write(
            CHILD_SIGNAL.load(Ordering::Relaxed),
            b"c".as_ptr().cast(),
            1,
        )
    };
}

/// A pipe that becomes readable when a child has ended.
pub fn child_signals() -> io::Result<File> {
    let (read, write) = pipe(libc::O_CLOEXEC | libc::O_NONBLOCK)?;
    CHILD_SIGNAL.store(write.as_raw_fd(), Ordering::Relaxed);
    std::mem::forget(write);
    // SAFETY: an all-zero sigaction is a valid one, and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_child as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        check(libc::sigaction(
            libc::SIGCHLD,
            &action,
            std::ptr::null_mut(),
        ))?;
    }
    Ok(read.into())
}

/// A pipe: its read end and its write end.
pub fn pipe(flags: libc::c_int) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which are ours if the call succeeds.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), flags))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Makes a descriptor non-blocking.
pub fn set_nonblocking(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))?;
    }
    Ok(())
}

/// Sets a terminal to raw mode: every byte passes unchanged.
pub fn set_raw(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: an all-zero termios is a valid one, and it outlives the calls.
    unsafe {
        let mut termios: libc::termios = std::mem::zeroed();
        check(libc::tcgetattr(fd.as_raw_fd(), &mut termios))?;
        libc::cfmakeraw(&mut termios);
        check(libc::tcsetattr(fd.as_raw_fd(), libc::TCSANOW, &termios))?;
    }
    Ok(())
}

/// Unlocks the pseudo-terminal of a master; returns its number.
pub fn unlock_terminal(master: BorrowedFd) -> io::Result<u32> {
    let (locked, mut number) = (0 as libc::c_int, 0 as libc::c_uint);
    // SAFETY: each request reads or writes one int.
    unsafe {
        check(libc::ioctl(
            master.as_raw_fd(),
            libc::TIOCSPTLCK as _,
            &locked,
        ))?;
        check(libc::ioctl(
            master.as_raw_fd(),
            libc::TIOCGPTN as _,
            &mut number,
        ))?;
    }
    Ok(number)
}

/// Sets the size of a terminal.
pub fn set_size(terminal: BorrowedFd, rows: u16, columns: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the request reads one winsize.
    unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ as _, &size) };
}

/// Runs `work` in a new process, which then exits; returns its process ID.
pub fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    // SAFETY: this process has one thread, so the child may do what the parent may.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        let _ = work();
        // SAFETY: no memory is passed.
        unsafe { libc::_exit(127) };
    }
    Ok(child)
}

/// In a child: creates a session with these standard descriptors; the first becomes the controlling
/// terminal if it is a `terminal`. Resets the signals that Rust ignores to the state that programs
/// expect.
pub fn become_program(descriptors: [&OwnedFd; 3], terminal: bool) -> io::Result<()> {
    // SAFETY: no memory is passed.
    unsafe {
        check(libc::setsid())?;
        for (number, descriptor) in descriptors.into_iter().enumerate() {
            check(libc::dup2(descriptor.as_raw_fd(), number as libc::c_int))?;
        }
        if terminal {
            check(libc::ioctl(0, libc::TIOCSCTTY as _, 0))?;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
    Ok(())
}

/// In a child: gives up root for a user, who may then open the standard descriptors anew, as
/// `/dev/stdout` for instance.
pub fn become_user(user: &User) -> io::Result<()> {
    for descriptor in 0..3 {
        // SAFETY: an all-zero stat is a valid one, and it outlives the call.
        let kind = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            check(libc::fstat(descriptor, &mut stat))?;
            (stat.st_mode & libc::S_IFMT, stat.st_rdev as libc::dev_t)
        };
        let is_ours = match kind {
            (libc::S_IFIFO, _) => true,
            (libc::S_IFCHR, device) => device != libc::makedev(1, 3),
            _ => false,
        };
        if is_ours {
            // SAFETY: no memory is passed.
            unsafe { libc::fchown(descriptor, user.uid, libc::gid_t::MAX) };
        }
    }
    // SAFETY: pointer and length are the vector's.
    unsafe {
        check(libc::setgroups(
            user.groups.len() as _,
            user.groups.as_ptr(),
        ))?;
        check(libc::setgid(user.gid))?;
        check(libc::setuid(user.uid))?;
    }
    Ok(())
}

/// Calls execve(2). Returns only on an error.
pub fn execute(file: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| -> Vec<*const libc::c_char> {
        words
            .iter()
            .map(|word| word.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    // SAFETY: the strings, and the arrays of pointers to them with a null at the end, outlive the
    // call.
    unsafe {
        libc::execve(
            file.as_ptr(),
            pointers(arguments).as_ptr(),
            pointers(environment).as_ptr(),
        )
    };
    io::Error::last_os_error()
}

/// Sends a signal to a process.
pub fn signal(process: i32, signal: u8) {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(process, signal.into()) };
}

/// Sends a signal to a process group.
pub fn signal_group(leader: i32, signal: u8) {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(-leader, signal.into()) };
}

/// Kills all other processes and waits until they have ended.
pub fn kill_all() {
    // SAFETY: no memory is passed; a null status is allowed.
    unsafe {
        libc::kill(-1, libc::SIGKILL);
        while libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 {}
    }
}

/// Returns a child that has ended and is not yet reaped.
pub fn ended_child() -> Option<i32> {
    // SAFETY: an all-zero siginfo is a valid one; without a child si_pid stays 0.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        check(libc::waitid(libc::P_ALL, 0, &mut info, flags)).ok()?;
        Some(info.si_pid()).filter(|&pid| pid != 0)
    }
}

/// Reaps a child; returns its wait status.
pub fn reap(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: the status outlives the call.
    check(unsafe { libc::waitpid(pid, &mut status, 0) })?;
    Ok(status)
}

/// Waits until one of the descriptors has an event it asks for.
pub fn poll(fds: &mut [libc::pollfd]) -> io::Result<()> {
    // SAFETY: pointer and length are of the slice.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, -1) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}
