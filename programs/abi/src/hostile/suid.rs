//! A set-user-ID program of a more privileged user: a process that traces it, shares with it,
//! prepares its environment, or chose the signal sent at its end gains none of its privileges.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::{mem, ptr};

use super::become_user;
use crate::{error, in_child, tell, tell_end};

/// This program, owned by root and set-user-ID.
const PRIVILEGED: &CStr = c"/tmp/privileged";
/// The same, executable but not readable.
const UNREADABLE: &CStr = c"/tmp/unreadable";

/// Runs this part.
pub fn run() {
    let mut arguments = std::env::args().skip(3);
    if let Some(act) = arguments.next() {
        return victim(&act, arguments.next());
    }
    for (to, mode) in [(PRIVILEGED, 0o4755), (UNREADABLE, 0o711)] {
        let to = to.to_str().expect("a name in ASCII");
        fs::copy("/proc/self/exe", to).expect("room for a copy");
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).expect("a file of root's");
    }
    // SAFETY: every pointer passed is to a live value of the right type, and children end by
    // _exit or exec.
    unsafe {
        plain();
        traced();
        shared();
        confined();
        opened_before();
        exit_signals();
        of_others();
        unreadable();
        window();
    }
}

/// The actions of the executed program.
fn victim(act: &str, argument: Option<String>) {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        match act {
            "tell" => {
                let mut death = 0;
                libc::prctl(libc::PR_GET_PDEATHSIG, &mut death);
                println!(
                    "  uid {} euid {} dumpable {} secure {} personality {:x} death signal {death}",
                    libc::getuid(),
                    libc::geteuid(),
                    libc::prctl(libc::PR_GET_DUMPABLE),
                    libc::getauxval(libc::AT_SECURE),
                    libc::personality(0xffff_ffff),
                );
            }
            "use" => {
                let fd = argument.and_then(|fd| fd.parse().ok()).unwrap_or(-1);
                let mut byte = 0u8;
                let mut read = || {
                    libc::lseek(fd, 0, libc::SEEK_SET);
                    libc::read(fd, (&raw mut byte).cast(), 1) as i64
                };
                // Others may still hold the old memory for a moment.
                for _ in 0..200 {
                    if read() <= 0 {
                        break;
                    }
                    libc::usleep(10_000);
                }
                tell("  read", read());
                libc::lseek(fd, ptr::from_ref(&byte) as libc::off_t, libc::SEEK_SET);
                tell("  write", libc::write(fd, c"x".as_ptr().cast(), 1) as i64);
            }
            "live" => {
                let fd = argument.and_then(|fd| fd.parse().ok()).unwrap_or(-1);
                libc::write(fd, c"x".as_ptr().cast(), 1);
                let mut byte = 0u8;
                libc::read(0, (&raw mut byte).cast(), 1);
                // Children of the program that ran before in this process.
                libc::waitpid(-1, ptr::null_mut(), libc::__WALL);
                println!("  lived as {}", libc::geteuid());
            }
            _ => {}
        }
    }
}

/// Executes `program` as a victim that runs the action `act`.
unsafe fn execute(program: &CStr, act: &CStr, argument: &CStr) {
    let words = [program, c"hostile", c"suid", act, argument].map(CStr::as_ptr);
    let words = [
        words[0],
        words[1],
        words[2],
        words[3],
        words[4],
        ptr::null(),
    ];
    unsafe { libc::execv(program.as_ptr(), words.as_ptr()) };
}

unsafe fn plain() {
    const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x4_0000;
    const WHOLE_SECONDS: libc::c_ulong = 0x200_0000;
    unsafe {
        println!("executed by the user");
        in_child(|| {
            become_user();
            libc::personality(ADDR_NO_RANDOMIZE | WHOLE_SECONDS);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            execute(PRIVILEGED, c"tell", c"");
        });
        println!("an ordinary program");
        in_child(|| {
            become_user();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
            let child =
                in_child(|| tell("  dumpable after fork", libc::prctl(libc::PR_GET_DUMPABLE)));
            tell_end("  child", child);
            let mut stat: libc::stat = mem::zeroed();
            for file in [c"/proc/self", c"/proc/self/maps", c"/proc/self/task"] {
                libc::stat(file.as_ptr(), &mut stat);
                println!("  {} is {}'s", file.to_string_lossy(), stat.st_uid);
            }
            execute(c"/proc/self/exe", c"tell", c"");
        });
        for (name, change) in [
            (
                "setresuid",
                libc::setresuid as unsafe extern "C" fn(u32, u32, u32) -> i32,
            ),
            ("setresgid", libc::setresgid),
        ] {
            in_child(|| {
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                change(u32::MAX, super::USER, u32::MAX);
                println!(
                    "dumpable after {name}: {}",
                    libc::prctl(libc::PR_GET_DUMPABLE)
                );
            });
        }
    }
}

unsafe fn traced() {
    unsafe {
        for (who, acts) in [("the user", true), ("root", false)] {
            println!("traced by {who}");
            in_child(|| {
                if acts {
                    become_user();
                }
                let child = libc::fork();
                if child == 0 {
                    libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                    if !acts {
                        become_user();
                    }
                    execute(PRIVILEGED, c"tell", c"");
                }
                let mut status = 0;
                libc::waitpid(child, &mut status, 0);
                libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
                libc::waitpid(child, &mut status, 0);
                tell_end("  end", status);
            });
        }
    }
}

/// Another process or thread can change the program's directory at any time.
unsafe fn shared() {
    unsafe {
        println!("another process has its directory");
        in_child(|| {
            become_user();
            let flags = (libc::CLONE_FS | libc::SIGCHLD) as usize;
            if libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) == 0 {
                execute(PRIVILEGED, c"tell", c"");
            }
            libc::wait(ptr::null_mut());
        });
        println!("its other threads have its directory");
        in_child(|| {
            become_user();
            std::thread::spawn(|| execute(PRIVILEGED, c"tell", c""));
            loop {
                libc::pause();
            }
        });
    }
}

unsafe fn confined() {
    unsafe {
        println!("with no new privileges");
        in_child(|| {
            become_user();
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            execute(PRIVILEGED, c"tell", c"");
        });
    }
}

/// Files of the old program's memory that the new one inherits do not give access to its own.
unsafe fn opened_before() {
    unsafe {
        for name in ["mem", "maps", "smaps", "pagemap", "environ"] {
            println!("/proc/self/{name} opened before");
            in_child(|| {
                become_user();
                // After a change of IDs, a process's files in /proc belong to root unless it is
                // dumpable.
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                let writes = name == "mem";
                let file = fs::OpenOptions::new()
                    .read(true)
                    .write(writes)
                    .open(format!("/proc/self/{name}"));
                let fd = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
                libc::fcntl(fd, libc::F_SETFD, 0);
                let fd = CString::new(fd.to_string()).expect("digits");
                execute(PRIVILEGED, c"use", &fd);
            });
        }
    }
}

unsafe fn clone_with(signal: i32) -> libc::c_long {
    unsafe { libc::syscall(libc::SYS_clone, signal as usize, 0, 0, 0, 0) }
}

/// A child's exit signal goes only to the program that created the child, and a message's signal
/// only to the program that requested it.
unsafe fn exit_signals() {
    unsafe {
        let status = in_child(|| {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            let mut pipe = [0; 2];
            libc::pipe(pipe.as_mut_ptr());
            let user = libc::fork();
            if user == 0 {
                become_user();
                if clone_with(libc::SIGKILL) == 0 {
                    // Waits until it is an orphan.
                    libc::close(pipe[1]);
                    libc::read(pipe[0], (&raw mut pipe).cast(), 1);
                }
                libc::_exit(0);
            }
            libc::waitpid(user, ptr::null_mut(), 0);
            libc::close(pipe[1]);
            // Waits for the orphan.
            libc::waitpid(-1, ptr::null_mut(), libc::__WALL);
        });
        tell_end("an orphan with SIGKILL for its heir", status);
        println!("a child with SIGKILL for who executes");
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        let victim = Living::begin(PRIVILEGED, || {
            become_user();
            if clone_with(libc::SIGKILL) == 0 {
                // Waits until the other program runs.
                let mut byte = 0u8;
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
        });
        libc::write(pipe[1], c"x".as_ptr().cast(), 1);
        tell_end("  end", victim.end());
        println!("a message with SIGKILL for who executes");
        let name = c"message".as_ptr();
        let flags = libc::O_CREAT | libc::O_RDWR;
        let none = ptr::null_mut::<libc::c_void>();
        let victim = Living::begin(PRIVILEGED, || {
            become_user();
            let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, none) as i32;
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGKILL;
            libc::syscall(libc::SYS_mq_notify, queue, &event);
            libc::fcntl(queue, libc::F_SETFD, 0);
        });
        let queue = libc::syscall(libc::SYS_mq_open, name, flags, 0o600, none) as i32;
        tell(
            "  message",
            libc::syscall(libc::SYS_mq_timedsend, queue, name, 1, 0, none),
        );
        libc::syscall(libc::SYS_mq_unlink, name);
        libc::close(queue);
        tell_end("  end", victim.end());
    }
}

/// A program that runs until it is told to exit.
struct Living {
    pid: i32,
    to: i32,
}

impl Living {
    /// Starts `program` in a child, after `first`; it runs when this returns.
    unsafe fn begin(program: &CStr, first: impl FnOnce()) -> Self {
        unsafe {
            let (mut to, mut from) = ([0; 2], [0; 2]);
            libc::pipe(to.as_mut_ptr());
            libc::pipe(from.as_mut_ptr());
            let pid = libc::fork();
            if pid == 0 {
                libc::dup2(to[0], 0);
                first();
                let fd = CString::new(from[1].to_string()).expect("digits");
                execute(program, c"live", &fd);
                libc::_exit(1);
            }
            let mut byte = 0u8;
            libc::read(from[0], (&raw mut byte).cast(), 1);
            Living { pid, to: to[1] }
        }
    }

    /// Lets it exit; returns its status.
    unsafe fn end(self) -> i32 {
        let mut status = 0;
        unsafe {
            libc::write(self.to, c"x".as_ptr().cast(), 1);
            libc::waitpid(self.pid, &mut status, 0);
        }
        status
    }
}

/// Reads a byte of process `child` at the address `from`.
unsafe fn read_of(child: i32, from: *mut u8, to: &mut u8) -> isize {
    let [own, its] = [ptr::from_mut(to), from].map(|base| libc::iovec {
        iov_base: base.cast(),
        iov_len: 1,
    });
    unsafe { libc::process_vm_readv(child, &own, 1, &its, 1, 0) }
}

/// Prints whether the memory of process `child` can be read; the content depends on the address of
/// its program.
unsafe fn tell_memory(child: i32) {
    let read = unsafe { read_of(child, SECRET.as_ptr(), &mut 0) };
    let refused = read == -1 && error() != "EFAULT";
    println!("  memory: {}", if refused { error() } else { "open" });
}

/// The user's access to root's processes: to a program that root started, and to a privileged one
/// that the user started.
unsafe fn of_others() {
    unsafe {
        println!("root's program");
        let roots = Living::begin(c"/proc/self/exe", || {});
        in_child(|| {
            become_user();
            look_into(roots.pid);
        });
        roots.end();
        in_child(|| {
            become_user();
            println!("another's program");
            let privileged = Living::begin(PRIVILEGED, || {});
            look_into(privileged.pid);
            privileged.end();
            println!("the user's own program");
            let own = Living::begin(c"/proc/self/exe", || {});
            look_into(own.pid);
            own.end();
        });
    }
}

unsafe fn look_into(pid: i32) {
    unsafe {
        let mut limit = libc::rlimit {
            rlim_cur: 1000,
            rlim_max: 1000,
        };
        let nothing = ptr::null_mut();
        let pidfd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        tell("  kill", libc::kill(pid, 0));
        tell(
            "  pidfd_send_signal",
            libc::syscall(libc::SYS_pidfd_send_signal, pidfd, 0, 0, 0),
        );
        let got = libc::syscall(libc::SYS_pidfd_getfd, pidfd, 0, 0);
        tell("  pidfd_getfd", got.min(0));
        let kcmp = libc::syscall(libc::SYS_kcmp, pid, pid, 1, 0, 0);
        tell("  kcmp", kcmp);
        tell(
            "  prlimit",
            libc::prlimit(pid, libc::RLIMIT_CPU, &limit, nothing),
        );
        tell(
            "  its limit",
            libc::prlimit(pid, libc::RLIMIT_CPU, ptr::null(), &mut limit),
        );
        tell(
            "  setpriority",
            libc::setpriority(libc::PRIO_PROCESS, pid as u32, 5),
        );
        let cpus: libc::cpu_set_t = mem::transmute([1u8; size_of::<libc::cpu_set_t>()]);
        let affinity = libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &cpus);
        tell("  sched_setaffinity", affinity);
        let (mut head, mut size) = (0usize, 0usize);
        let list = libc::syscall(libc::SYS_get_robust_list, pid, &mut head, &mut size);
        tell("  get_robust_list", list);
        tell_memory(pid);
        for name in ["mem", "maps", "environ", "auxv", "pagemap", "stat"] {
            let opened = fs::File::open(format!("/proc/{pid}/{name}"));
            println!(
                "  {name}: {:?}",
                opened.err().and_then(|error| error.raw_os_error())
            );
        }
        tell("  write comm", write(&format!("/proc/{pid}/comm")));
        tell("  attach", libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0));
    }
}

/// Writes a name into a file; returns the result.
fn write(file: &str) -> i32 {
    fs::write(file, "name").map_or(-1, |()| 0)
}

/// The memory of a program that may not be read cannot be read either.
unsafe fn unreadable() {
    unsafe {
        in_child(|| {
            become_user();
            let living = Living::begin(UNREADABLE, || {});
            let child = living.pid;
            println!("a program that may not be read");
            tell_memory(child);
            tell("  attach", libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0));
            living.end();
            let child = libc::fork();
            if child == 0 {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                execute(UNREADABLE, c"tell", c"");
            }
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            let mut word = 0usize;
            let at = (&raw mut word).cast::<libc::c_void>();
            let peek = libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, child, at, at);
            tell("  peek", peek);
            libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
            libc::waitpid(child, &mut status, 0);
            tell_end("  end", status);
        });
    }
}

/// The value of SECRET in the user's own program.
const OLD: u8 = 1;
/// At the same address in every process of this program, unless that is position-independent
/// (RISC-V).
static SECRET: AtomicU8 = AtomicU8::new(0);

/// While execve replaces a program, nobody without permission reads the memory of the new one.
unsafe fn window() {
    const TRIES: usize = 6;
    unsafe {
        in_child(|| {
            become_user();
            SECRET.store(OLD, Relaxed);
            let mut won = 0;
            for _ in 0..TRIES {
                let mut pipe = [0; 2];
                libc::pipe(pipe.as_mut_ptr());
                let child = libc::fork();
                if child == 0 {
                    libc::prctl(libc::PR_SET_DUMPABLE, 1);
                    // Closing all these takes time.
                    while libc::pipe2([0; 2].as_mut_ptr(), libc::O_CLOEXEC) == 0 {}
                    libc::write(pipe[1], c"x".as_ptr().cast(), 1);
                    execute(PRIVILEGED, c"end", c"");
                    libc::_exit(1);
                }
                let mut byte = 0u8;
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
                let mut found = OLD;
                while read_of(child, SECRET.as_ptr(), &mut found) == 1 && found == OLD {}
                won += i32::from(found != OLD);
                libc::waitpid(child, ptr::null_mut(), 0);
                libc::close(pipe[0]);
                libc::close(pipe[1]);
            }
            println!("read between two programs: {won} times");
        });
    }
}
