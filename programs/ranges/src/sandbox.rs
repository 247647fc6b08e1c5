//! Children that try calls, as a user who can harm nobody, and the parent that watches them.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{mem, ptr};

use crate::attempt::{Attempt, Place};
use crate::objects;

/// The user.
const USER: u32 = 1000;
/// How often a call that waits is interrupted.
const INTERRUPT: libc::timeval = libc::timeval {
    tv_sec: 0,
    tv_usec: 10_000,
};
/// How long a child may be without a result, however slow the host is.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call that takes longer may take long.
const LONG: Duration = Duration::from_secs(1);

/// No result yet.
const NONE: i64 = i64::MIN;
/// How many results are kept.
const KEPT: usize = 16;

/// What a child tells its parent.
struct Shared {
    /// The attempt that it is at.
    at: AtomicUsize,
    /// What came of the first ones.
    results: [AtomicI64; KEPT],
    /// One that took long, and one more.
    long: AtomicUsize,
}

/// What came of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// A value that is no error.
    Ok,
    /// An error.
    Error(i64),
    /// A signal ended the child.
    Signal(i32),
    /// It did not come back.
    Hangs,
}

/// How a series of attempts ended.
pub struct End {
    /// The attempt that was the last.
    pub at: usize,
    /// What came of the first ones, it included.
    pub outcomes: Vec<Outcome>,
    /// Whether it did not come back.
    pub hangs: bool,
    /// An attempt that took long.
    pub long: Option<usize>,
    /// The time that the kernel was busy for the child.
    pub busy: Duration,
}

/// The memory that children share with their parent.
pub struct Sandbox {
    shared: *const Shared,
    root: bool,
}

extern "C" fn interrupted(_signal: i32) {}

impl Sandbox {
    /// A sandbox in a small file system of its own, which is the working directory then; its
    /// children act as `root` or as a user.
    pub fn new(root: bool) -> Self {
        // SAFETY: every string ends with zero, and the memory is new.
        unsafe {
            let tmpfs = c"tmpfs".as_ptr();
            let at = c"/tmp/ends";
            libc::mkdir(at.as_ptr(), 0o777);
            let options = c"size=4m,mode=1777".as_ptr().cast();
            libc::mount(tmpfs, at.as_ptr(), tmpfs, 0, options);
            libc::chdir(at.as_ptr());
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut set, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let shared = libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0);
            assert_ne!(shared, libc::MAP_FAILED, "no memory");
            Sandbox {
                shared: shared.cast(),
                root,
            }
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the memory stays, and zeroes are a value of it.
        unsafe { &*self.shared }
    }

    /// Tries `attempts` in a child, until one ends it.
    pub fn run(&self, attempts: &[Attempt]) -> End {
        let shared = self.shared();
        shared.at.store(0, SeqCst);
        shared
            .results
            .iter()
            .for_each(|result| result.store(NONE, SeqCst));
        shared.long.store(0, SeqCst);
        // SAFETY: there is one thread, and the child does not return.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                self.child(attempts);
                libc::_exit(0);
            }
            child
        };
        let (status, busy) = self.watch(child);
        let at = shared.at.load(SeqCst);
        let kept = shared.results.iter().take(at + 1);
        let outcomes = kept.map(|result| match (status, result.load(SeqCst)) {
            (None, NONE) => Outcome::Hangs,
            (Some(status), NONE) if libc::WIFSIGNALED(status) => {
                Outcome::Signal(libc::WTERMSIG(status))
            }
            (_, error @ -4095..0) => Outcome::Error(-error),
            _ => Outcome::Ok,
        });
        End {
            at,
            outcomes: outcomes.collect(),
            hangs: status.is_none(),
            long: shared.long.load(SeqCst).checked_sub(1),
            busy,
        }
    }

    /// Waits for a child's end: its status, or None if it had to be killed, and how long the kernel
    /// was busy for it.
    fn watch(&self, child: i32) -> (Option<i32>, Duration) {
        let shared = self.shared();
        let seen = || shared.at.load(SeqCst);
        let (mut last, mut since) = (seen(), Instant::now());
        let mut killed = false;
        // SAFETY: every pointer is that of a live value.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut set, libc::SIGCHLD);
            let tick = libc::timespec {
                tv_sec: 0,
                tv_nsec: 100_000_000,
            };
            loop {
                let (mut status, mut usage) = (0, mem::zeroed::<libc::rusage>());
                let ended = libc::wait4(child, &mut status, libc::WNOHANG, &mut usage);
                if ended == child && libc::WIFSTOPPED(status) {
                    libc::kill(child, libc::SIGKILL);
                    continue;
                }
                if ended == child {
                    let busy = usage.ru_stime;
                    let busy = Duration::new(busy.tv_sec as u64, busy.tv_usec as u32 * 1000);
                    return ((!killed).then_some(status), busy);
                }
                if seen() != last {
                    (last, since) = (seen(), Instant::now());
                }
                let waits = since.elapsed() > LONG && is_asleep(child);
                if waits || since.elapsed() > PATIENCE {
                    libc::kill(child, libc::SIGKILL);
                    killed = true;
                }
                libc::sigtimedwait(&set, ptr::null_mut(), &tick);
            }
        }
    }

    fn child(&self, attempts: &[Attempt]) {
        // SAFETY: every pointer is that of a live value; what the calls that are tried do, they do
        // to this child, which has nothing that anybody needs.
        unsafe {
            libc::setsid();
            objects::remove();
            if !self.root {
                libc::setgroups(0, ptr::null());
                libc::setresgid(USER, USER, USER);
                libc::setresuid(USER, USER, USER);
            }
            objects::make();
            let action = libc::sigaction {
                sa_sigaction: interrupted as *const () as usize,
                ..mem::zeroed()
            };
            libc::sigaction(libc::SIGALRM, &action, ptr::null_mut());
            let timer = libc::itimerval {
                it_interval: INTERRUPT,
                it_value: INTERRUPT,
            };
            libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut());
            let shared = self.shared();
            let own = libc::getpid();
            for (at, attempt) in attempts.iter().enumerate() {
                objects::fill(attempt.set.iter().filter_map(|(place, value)| match place {
                    Place::Word(at, word) => Some((*at, *word, *value)),
                    Place::Register(_) => None,
                }));
                let [a, b, c, d, e, f] = attempt.registers();
                shared.at.store(at, SeqCst);
                let before = Instant::now();
                let number = i64::from(attempt.call.number);
                let mut result = libc::syscall(number as _, a, b, c, d, e, f) as i64;
                if result == -1 {
                    result = -i64::from(*libc::__errno_location());
                }
                if libc::syscall(libc::SYS_getpid) as i32 != own {
                    libc::_exit(0);
                }
                if let Some(kept) = shared.results.get(at) {
                    kept.store(result, SeqCst);
                }
                if before.elapsed() > LONG {
                    shared.long.store(at + 1, SeqCst);
                }
            }
        }
    }
}

/// Whether a process sleeps.
fn is_asleep(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default();
    matches!(state.trim_start().as_bytes().first(), Some(b'S' | b'D'))
}
