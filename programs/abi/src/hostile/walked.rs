//! Many objects of one user do not make operations on other objects more expensive. Costs are
//! compared with those beside a hundred objects, as the minimum of many attempts: a kernel that
//! walks all of them takes a hundred times as long beside 10,000.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::become_user;
use crate::{in_child, tell, tell_end};

const FEW: usize = 100;
const MANY: usize = 10_000;
/// Linux allows no more processes with so little memory.
const PROCESSES: usize = 3_000;
/// The ratio up to which two costs count as the same: far below the cost of a walk.
const SAME: u32 = 8;

/// DN_CREATE and DN_MULTISHOT.
const CREATE: i32 = 4;
const MULTISHOT: i32 = i32::MIN;

fn least(act: &mut impl FnMut()) -> Duration {
    let one = |_| {
        let start = Instant::now();
        act();
        start.elapsed()
    };
    (0..300).map(one).min().unwrap_or_default()
}

/// Prints whether `act` costs the same beside few and beside many objects that `make` creates,
/// which exist meanwhile.
fn compare<T>(what: &str, many: usize, make: impl FnMut(usize) -> T, mut act: impl FnMut()) {
    let mut all = Vec::new();
    let mut make = (0..many).map(make);
    all.extend(make.by_ref().take(FEW));
    let few = least(&mut act);
    all.extend(make);
    let many = least(&mut act);
    let dearer = many > few * SAME;
    println!("{what}: {}", if dearer { "dearer" } else { "as cheap" });
}

fn control(file: &impl AsRawFd, command: i32, argument: i32) {
    // SAFETY: these commands access no memory.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    assert_eq!(done, 0, "{}", crate::error());
}

fn leases() {
    fs::create_dir("leased").expect("a folder");
    fs::write("other", "").expect("a file");
    let leased = |at| {
        let name = format!("leased/{at}");
        fs::write(&name, "").expect("a file");
        let file = File::open(name).expect("the file");
        control(&file, libc::F_SETLEASE, libc::F_RDLCK);
        file
    };
    compare("an open beside leases", MANY, leased, || {
        drop(File::options().write(true).open("other"));
    });
}

fn notices() {
    // SAFETY: ignores a signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    fs::create_dir_all("watched").expect("a folder");
    fs::create_dir("elsewhere").expect("a folder");
    let watch = |name: &str| {
        let folder = File::open(name).expect("the folder");
        control(&folder, libc::F_NOTIFY, CREATE | MULTISHOT);
        folder
    };
    let watched = |at| {
        let name = format!("watched/{at}");
        fs::create_dir(&name).expect("a folder");
        watch(&name)
    };
    compare("a name beside watched folders", MANY, watched, || {
        drop(File::create("elsewhere/name"));
        _ = fs::remove_file("elsewhere/name");
    });
    // No watch asks for this event.
    compare(
        "a folder opened beside notices of it",
        MANY,
        |_| watch("elsewhere"),
        || drop(File::open("elsewhere")),
    );
}

fn members() {
    // SAFETY: creates descriptors, and passes a live event.
    let (set, ready) = unsafe { (libc::epoll_create1(0), libc::eventfd(1, 0)) };
    let control = |operation, file: RawFd| {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        // SAFETY: as above.
        unsafe { libc::epoll_ctl(set, operation, file, &mut event) }
    };
    let member = |_| {
        // SAFETY: as above.
        let file = unsafe { libc::eventfd(1, 0) };
        assert_eq!(control(libc::EPOLL_CTL_ADD, file), 0, "{}", crate::error());
    };
    compare(
        "a member beside others that are ready",
        MANY,
        member,
        || {
            control(libc::EPOLL_CTL_ADD, ready);
            control(libc::EPOLL_CTL_DEL, ready);
        },
    );
}

fn timers() {
    // SAFETY: creates descriptors, and passes live times.
    let timer = || unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) };
    let set = |timer: RawFd, seconds: usize| {
        // SAFETY: as above; all zeroes is a valid time.
        unsafe {
            let mut time: libc::itimerspec = std::mem::zeroed();
            time.it_value.tv_sec = seconds as _;
            let done = libc::timerfd_settime(timer, 0, &time, std::ptr::null_mut());
            assert_eq!(done, 0, "{}", crate::error());
        }
    };
    let (one, late) = (timer(), 2 * MANY);
    let armed = |at| set(timer(), MANY + at);
    compare("a timer beside others", MANY, armed, || {
        set(one, late);
        set(one, 0);
    });
}

fn groups() {
    // SAFETY: the child only waits; the vfork child only exits.
    unsafe {
        let alone = libc::fork();
        if alone == 0 {
            libc::pause();
            libc::_exit(0);
        }
        libc::setpgid(alone, alone);
        let kind = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let ended = |_| {
            if libc::syscall(libc::SYS_clone, kind, 0, 0, 0, 0) == 0 {
                libc::_exit(0);
            }
        };
        compare("a group beside processes", PROCESSES, ended, || {
            libc::kill(-alone, 0);
        });
        libc::kill(alone, libc::SIGKILL);
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: paths, options and limits are live; the process has one thread.
    unsafe {
        let room = libc::rlimit {
            rlim_cur: 20_000,
            rlim_max: 20_000,
        };
        tell("descriptors", libc::setrlimit(libc::RLIMIT_NOFILE, &room));
        let (place, kind) = (CString::default(), c"tmpfs".as_ptr());
        for (name, part) in [
            ("leases", leases as fn()),
            ("notices", notices),
            ("members", members),
            ("timers", timers),
            ("groups", groups),
        ] {
            libc::mount(kind, c"/tmp".as_ptr(), kind, 0, place.as_ptr().cast());
            libc::chmod(c"/tmp".as_ptr(), 0o777);
            let status = in_child(|| {
                become_user();
                libc::chdir(c"/tmp".as_ptr());
                part();
            });
            tell_end(name, status);
            libc::umount2(c"/tmp".as_ptr(), 0);
        }
    }
}
