//! Calls that fail after they have chosen a descriptor: nobody ever sees it open.

use std::fs::{self, DirEntry, File};
use std::mem::{self, offset_of};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::{ptr, thread};

use libc::{AF_UNIX, SOCK_STREAM, SOL_SOCKET, c_int, c_long};

use crate::{error, tell, tell_end};

const ROUNDS: usize = 2000;
const NOWHERE: usize = 8;

static ENDED: AtomicBool = AtomicBool::new(false);
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value, or invalid and refused.
    unsafe {
        let mut pair = [0; 2];
        libc::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.as_mut_ptr());
        let [one, other] = pair;
        let free = libc::dup(0);
        libc::close(free);
        let looks = thread::spawn(move || {
            while !ENDED.load(SeqCst) {
                for fd in free..free + 3 {
                    let open = libc::fcntl(fd, libc::F_GETFD) >= 0;
                    SEEN.fetch_add(u32::from(open), SeqCst);
                }
            }
        });
        fails("clone3", || clone());
        fails("pipe2", || libc::syscall(libc::SYS_pipe2, NOWHERE, 0));
        let (domain, kind) = (AF_UNIX as c_long, SOCK_STREAM as c_long);
        fails("socketpair", || {
            libc::syscall(libc::SYS_socketpair, domain, kind, 0, NOWHERE)
        });
        fails("SO_PEERPIDFD", || peer(one));
        fails("SCM_RIGHTS", || rights(one, other));
        let end = crate::in_child(|| {
            listens();
            fails("a second listener", || listens());
        });
        tell_end("listeners", end);
        ENDED.store(true, SeqCst);
        _ = looks.join();
        tell("seen", SEEN.load(SeqCst));
        tell_end("taken", crate::in_child(|| replaced()));
    }
}

/// Makes a call many times, all of which fail.
unsafe fn fails(what: &str, call: impl Fn() -> c_long) {
    let failed = (0..ROUNDS).filter(|_| call() < 0).count();
    println!("{what}: {}, {}", failed == ROUNDS, error());
}

unsafe fn clone() -> c_long {
    let arguments = [
        libc::CLONE_PIDFD as u64,
        NOWHERE as u64,
        0,
        0,
        libc::SIGCHLD as u64,
        0,
        0,
        0,
    ];
    unsafe {
        let size = size_of_val(&arguments);
        let child = libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size);
        if child == 0 {
            libc::_exit(0);
        }
        child
    }
}

unsafe fn peer(socket: c_int) -> c_long {
    const SO_PEERPIDFD: c_int = 77;
    unsafe {
        let mut len = 4u32;
        let to = ptr::without_provenance_mut(NOWHERE);
        libc::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, to, &mut len).into()
    }
}

/// Receives a descriptor with an invalid address for its number: none is received.
unsafe fn rights(from: c_int, to: c_int) -> c_long {
    #[repr(C)]
    struct Control {
        head: libc::cmsghdr,
        fd: c_int,
    }
    unsafe {
        let mut control: Control = mem::zeroed();
        control.head.cmsg_len = (offset_of!(Control, fd) + 4) as _;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = libc::SCM_RIGHTS;
        let mut byte = 0u8;
        let mut part = libc::iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        libc::sendmsg(from, &message, 0);
        message.msg_control = ptr::without_provenance_mut(NOWHERE);
        let got = libc::recvmsg(to, &mut message, 0);
        let cut = message.msg_flags & libc::MSG_CTRUNC != 0;
        if got == 1 && cut { -1 } else { 0 }
    }
}

unsafe fn listens() -> c_long {
    const MODE_FILTER: c_int = 1;
    const NEW_LISTENER: u32 = 8;
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mut allow = [libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        }];
        let program = libc::sock_fprog {
            len: 1,
            filter: allow.as_mut_ptr(),
        };
        libc::syscall(libc::SYS_seccomp, MODE_FILTER, NEW_LISTENER, &program)
    }
}

/// A descriptor that a pending call has chosen cannot be replaced, and is not open in a child.
unsafe fn replaced() {
    unsafe {
        // fork(3) blocks all signals in its caller for a moment, so SIGCHLD could go to the other
        // thread, and accept(2) would start again and choose another number.
        let mut ended: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut ended, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &ended, ptr::null_mut());
        let mut address: libc::sockaddr_un = mem::zeroed();
        address.sun_family = AF_UNIX as u16;
        let listener = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        // The kernel chooses an address.
        libc::bind(listener, (&raw const address).cast(), 2);
        libc::listen(listener, 1);
        let (told, tid) = channel();
        let (go, gone) = channel::<()>();
        let waits = thread::spawn(move || {
            told.send(libc::gettid()).unwrap();
            gone.recv().unwrap();
            let fd = libc::accept(listener, ptr::null_mut(), ptr::null_mut());
            (fd, error())
        });
        let path = format!("/proc/self/task/{}/syscall", tid.recv().unwrap_or(0));
        let file = File::open(path).expect("a thread has that");
        let accepts = format!("{} ", libc::SYS_accept);
        let chosen = libc::dup(0);
        libc::close(chosen);
        go.send(()).unwrap();
        let mut text = [0; 16];
        while file.read_at(&mut text, 0).is_err() || !text.starts_with(accepts.as_bytes()) {
            thread::yield_now();
        }
        // The raw call: a C library may retry while the descriptor is reserved.
        tell("replace", libc::syscall(libc::SYS_dup3, 0, chosen, 0));
        tell("close", libc::close(chosen));
        tell("look", libc::fcntl(chosen, libc::F_GETFD));
        let is_chosen = |entry: DirEntry| entry.file_name() == *chosen.to_string();
        let listed = fs::read_dir("/proc/self/fd").is_ok_and(|all| all.flatten().any(is_chosen));
        println!("listed: {listed}");
        let next = libc::dup(0);
        println!("next: {}", next == chosen + 1);
        let in_child = crate::in_child(|| libc::_exit(i32::from(libc::dup(0) == chosen)));
        tell_end("free in a child", in_child);
        let connecting = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        let mut len = size_of_val(&address) as u32;
        libc::getsockname(listener, (&raw mut address).cast(), &mut len);
        libc::connect(connecting, (&raw const address).cast(), len);
        match waits.join() {
            Ok((fd, _)) if fd == chosen => println!("accepted: true"),
            other => println!("accepted: {other:?}, not {chosen}"),
        }
    }
}
