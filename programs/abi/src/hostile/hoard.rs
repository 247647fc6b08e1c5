//! Attempts to use more than a user's share of kernel resources: this user is refused, others are
//! not.

use std::ffi::{CStr, CString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use libc::{F_GETPIPE_SZ, F_SETPIPE_SZ, RLIMIT_NOFILE, rlimit};

use super::USER;
use crate::{in_child, tell, tell_end, tell_ok};

const MIB: i32 = 1 << 20;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let most = rlimit {
            rlim_cur: 100_000,
            rlim_max: 100_000,
        };
        tell("descriptors", libc::setrlimit(RLIMIT_NOFILE, &most));
        tell_end("pipes", in_child(|| pipes()));
        tell_end("threads", in_child(|| threads()));
        tell_end("makers", in_child(|| makers()));
        tell_end("queues", in_child(|| queues()));
        programs();
        files();
        attributes();
        tell_end("names", in_child(|| names()));
    }
}

unsafe fn become_user() {
    unsafe { tell("identity", libc::setgid(USER) | libc::setuid(USER)) };
}

/// Waits until a child has written to the pipe.
unsafe fn wait_for(ends: [i32; 2]) {
    let mut byte = 0u8;
    // SAFETY: the buffer has one byte.
    unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
}

fn pipe() -> [i32; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

/// A user's pipes together have a limited number of pages.
unsafe fn pipes() {
    unsafe {
        become_user();
        let large = (0..1000).find(|_| libc::fcntl(pipe()[1], F_SETPIPE_SZ, MIB) < 0);
        tell_ok("a pipe too many", large.is_none());
        println!("large pipes: {large:?}");
        let few = (0..5000).find(|_| libc::fcntl(pipe()[1], F_GETPIPE_SZ) < 65536);
        println!("usual pipes: {few:?}");
        let last = pipe();
        tell("then", libc::fcntl(last[1], F_GETPIPE_SZ));
        tell("larger", libc::fcntl(last[1], F_SETPIPE_SZ, 65536));
        tell("smaller", libc::fcntl(last[1], F_SETPIPE_SZ, 4096));
    }
}

/// Names of a file count as inodes.
unsafe fn names() {
    unsafe {
        libc::mkdir(c"/tmp/names".as_ptr(), 0o777);
        let options = c"nr_inodes=8";
        let none = c"none".as_ptr();
        tell(
            "mount",
            libc::mount(
                none,
                c"/tmp/names".as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            ),
        );
        libc::chdir(c"/tmp/names".as_ptr());
        libc::close(libc::open(
            c"first".as_ptr(),
            libc::O_CREAT | libc::O_RDWR,
            0o600,
        ));
        let name = |number: i32| CString::new(number.to_string()).expect("digits");
        let links =
            (0..100).find(|&number| libc::link(c"first".as_ptr(), name(number).as_ptr()) < 0);
        println!("links: {links:?}");
        tell("one more", libc::link(c"first".as_ptr(), c"more".as_ptr()));
        tell("one less", libc::unlink(c"first".as_ptr()));
        tell("one more", libc::link(name(0).as_ptr(), c"more".as_ptr()));
        tell("over one", libc::rename(name(0).as_ptr(), name(1).as_ptr()));
        tell("one file's two", libc::unlink(name(0).as_ptr()));
        let handle = libc::open(c".".as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600);
        tell_ok("a file without a name", handle >= 0);
        let own = CString::new(format!("/proc/self/fd/{handle}")).expect("no zero");
        let at = libc::AT_FDCWD;
        tell(
            "its name",
            libc::linkat(
                at,
                own.as_ptr(),
                at,
                c"own".as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            ),
        );
        tell(
            "its second",
            libc::linkat(
                at,
                own.as_ptr(),
                at,
                c"second".as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            ),
        );
    }
}

/// Threads count as processes do.
unsafe fn threads() {
    let most = rlimit {
        rlim_cur: 10,
        rlim_max: 10,
    };
    unsafe {
        tell("processes", libc::setrlimit(libc::RLIMIT_NPROC, &most));
        become_user();
    }
    // A pidfd does not keep the slot of a process that was waited for.
    let gone = (0..20).take_while(|_| unsafe { ended_with_pidfd() });
    println!("processes that ended: {}", gone.count());
    let stays = || {
        std::thread::Builder::new().spawn(|| {
            loop {
                std::thread::park();
            }
        })
    };
    println!(
        "threads: {}",
        (0..50).take_while(|_| stays().is_ok()).count()
    );
    // SAFETY: nothing is shared with the child.
    tell("a process", unsafe { libc::fork() });
}

/// Whether a process could be created; it ends and is waited for, and its pidfd stays open.
unsafe fn ended_with_pidfd() -> bool {
    // SAFETY: nothing is shared with the child, and no status is requested.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        libc::syscall(libc::SYS_pidfd_open, child, 0);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0) > 0
    }
}

/// Forking processes that are killed during a fork leave nothing behind.
unsafe fn makers() {
    const LEN: usize = 8 << 20;
    let most = rlimit {
        rlim_cur: 10,
        rlim_max: 10,
    };
    unsafe {
        tell("processes", libc::setrlimit(libc::RLIMIT_NPROC, &most));
        become_user();
        let memory = vec![1u8; LEN];
        for round in 0..40 {
            // Children of earlier ones may still be ending.
            let made = (0..1000).find_map(|_| match libc::fork() {
                -1 => Some(-1).filter(|_| libc::usleep(10_000) != 0),
                maker => Some(maker),
            });
            let Some(maker) = made else { break };
            if maker == 0 {
                loop {
                    match libc::fork() {
                        0 => libc::_exit(memory[round].into()),
                        child => libc::waitpid(child, std::ptr::null_mut(), 0),
                    };
                }
            }
            libc::usleep(5000 + 300 * round as u32);
            libc::kill(maker, libc::SIGKILL);
            libc::waitpid(maker, std::ptr::null_mut(), 0);
        }
        // Children of the last may still be ending.
        let fork = || {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            child > 0
        };
        let made = (0..200).any(|_| fork() || libc::usleep(50_000) != 0);
        tell_ok("a process after them", made);
    }
}

/// An open message queue counts for its user, even after it is unlinked.
unsafe fn queues() {
    const NAME: &CStr = c"hoard";
    let most = rlimit {
        rlim_cur: 200_000,
        rlim_max: 200_000,
    };
    unsafe {
        tell("queues", libc::setrlimit(libc::RLIMIT_MSGQUEUE, &most));
        become_user();
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        let none = std::ptr::null_mut::<libc::c_void>();
        let make = || {
            let name = NAME.as_ptr();
            let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, none) as i32;
            if queue >= 0 {
                libc::syscall(libc::SYS_mq_unlink, name);
            }
            queue
        };
        let first = make();
        tell_ok("a queue", first >= 0);
        tell("close on exec", libc::fcntl(first, libc::F_GETFD));
        tell_ok("another", make() >= 0);
        tell("one too many", make());
        libc::close(first);
        tell_ok("one less", make() >= 0);
    }
}

/// A process that becomes a user with too many processes cannot execute a program.
unsafe fn programs() {
    let ready = pipe();
    let stay = || unsafe {
        let child = libc::fork();
        if child == 0 {
            become_user();
            libc::write(ready[1], c"".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        child
    };
    let begin = || unsafe {
        let (path, none) = (c"/nothing".as_ptr(), std::ptr::null());
        tell(
            "a program",
            libc::execve(path, [path, none].as_ptr(), [none].as_ptr()),
        );
    };
    // SAFETY: nothing is shared with the children, which are killed; the data read fits.
    unsafe {
        let others = [stay(), stay()].map(|child| {
            wait_for(ready);
            child
        });
        let status = in_child(|| {
            let limit = |soft| {
                let most = rlimit {
                    rlim_cur: soft,
                    rlim_max: 10,
                };
                tell("processes", libc::setrlimit(libc::RLIMIT_NPROC, &most));
            };
            limit(1);
            begin();
            become_user();
            begin();
            limit(5);
            begin();
            limit(1);
            begin();
        });
        tell_end("programs", status);
        for child in others {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// file-max limits the open files of all users but root together.
unsafe fn files() {
    const SETTING: &str = "/proc/sys/fs/file-max";
    let before = std::fs::read_to_string(SETTING).unwrap_or_default();
    tell_ok("file-max", std::fs::write(SETTING, "9000").is_ok());
    let open = || unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) };
    let ready = pipe();
    // SAFETY: only descriptors are passed, and the child ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            become_user();
            let name = SocketAddr::from_abstract_name("hoard").unwrap();
            let server = UnixListener::bind_addr(&name).unwrap();
            let _client = UnixStream::connect_addr(&name).unwrap();
            let one = open();
            let refused = (0..10_000).any(|_| open() < 0);
            tell_ok("a file too many", !refused);
            tell_ok("no file for a connection", server.accept().is_ok());
            libc::syscall(libc::SYS_close_range, one, one + 99, 0);
            tell_ok("the same connection", server.accept().is_ok());
            libc::write(ready[1], c"".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        wait_for(ready);
        tell_ok("root's", open() >= 0);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    tell_ok(
        "file-max as before",
        std::fs::write(SETTING, before.trim()).is_ok(),
    );
}

/// Extended attributes count as inodes.
unsafe fn attributes() {
    const PLACE: &CStr = c"/tmp/attributes";
    unsafe {
        tell("folder", libc::mkdir(PLACE.as_ptr(), 0o777));
        let options: &CStr = c"nr_inodes=64,mode=777";
        let kind = c"tmpfs".as_ptr();
        let mounted = libc::mount(kind, PLACE.as_ptr(), kind, 0, options.as_ptr().cast());
        tell("mount", mounted);
        let status = in_child(|| fill(c"/tmp/attributes/a", c"/tmp/attributes/b"));
        tell_end("attributes", status);
        tell("umount", libc::umount(PLACE.as_ptr()));
        libc::rmdir(PLACE.as_ptr());
    }
}

unsafe fn fill(first: &CStr, second: &CStr) {
    let value = [7u8; 1000];
    let set = |path: &CStr, number: usize| {
        let name = CString::new(format!("user.a{number:03}")).unwrap_or_default();
        // SAFETY: path, name and value are valid.
        unsafe {
            let value = value.as_ptr().cast();
            libc::setxattr(path.as_ptr(), name.as_ptr(), value, 1000, 0)
        }
    };
    unsafe {
        become_user();
        for path in [first, second] {
            tell_ok("file", libc::creat(path.as_ptr(), 0o600) >= 0);
        }
        let taken = [first, second].map(|path| (0..50).take_while(|&n| set(path, n) == 0).count());
        println!("set: {taken:?}");
        tell("one more", set(second, 99));
        tell(
            "another file",
            libc::creat(c"/tmp/attributes/c".as_ptr(), 0o600),
        );
        tell("unlink", libc::unlink(first.as_ptr()));
        tell("one more", set(second, 99));
    }
}
