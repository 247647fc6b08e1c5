//! The processes that are killed when memory runs out, and those that are not.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::ptr;

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, c_int, pid_t};

use crate::ptrace::{CONT, ptrace};
use crate::{tell, tell_ok};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// The folder in which files are created, and the user that creates them.
const PLACE: &str = "/tmp/room";
const USER: u32 = 1001;

/// Runs this part.
pub fn run() {
    adjust("-1000");
    // SAFETY: children only do what is written here.
    unsafe {
        on_its_way();
        stopped();
        beside();
        files_beside();
        whole_beside();
    }
}

/// Runs the part about processes that wait for others.
pub fn run_waiting() {
    adjust("-1000");
    // SAFETY: children only do what is written here.
    unsafe {
        behind_a_writer();
    }
}

/// Sets this process's oom_score_adj.
fn adjust(score: &str) {
    _ = fs::write("/proc/self/oom_score_adj", score);
}

/// A hundredth of the available memory, in bytes.
fn hundredth() -> usize {
    memory("MemAvailable:") / 100
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: usize = number.and_then(|number| number.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// Uses this much memory.
unsafe fn take(bytes: usize) {
    unsafe {
        let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE);
        let at = libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0);
        if at == MAP_FAILED {
            libc::_exit(1);
        }
        for page in (0..bytes).step_by(PAGE) {
            at.cast::<u8>().add(page).write_volatile(1);
        }
    }
}

/// Starts a child that runs `work`.
unsafe fn child(work: impl FnOnce()) -> pid_t {
    unsafe {
        let process = libc::fork();
        if process == 0 {
            adjust("0");
            work();
            libc::_exit(7);
        }
        process
    }
}

/// Starts a child that holds memory when this returns, and waits until `end` of a pipe is closed.
unsafe fn holder(bytes: usize, ends: [c_int; 2]) -> pid_t {
    unsafe { holder_after(|| take(bytes), ends) }
}

/// The same, where `work` takes the memory.
unsafe fn holder_after(work: impl FnOnce(), [end, other]: [c_int; 2]) -> pid_t {
    unsafe {
        let mut told = [-1; 2];
        libc::pipe(told.as_mut_ptr());
        let process = child(|| {
            work();
            libc::close(told[1]);
            libc::close(other);
            await_close(end);
        });
        libc::close(told[1]);
        await_close(told[0]);
        libc::close(told[0]);
        process
    }
}

/// Waits until nobody has the other end of a pipe open.
unsafe fn await_close(end: c_int) {
    let mut byte = 0u8;
    unsafe { libc::read(end, (&raw mut byte).cast(), 1) };
}

unsafe fn wait(process: pid_t) -> c_int {
    let mut status = 0;
    unsafe { libc::waitpid(process, &mut status, 0) };
    status
}

/// The largest process is about to exit, and stopped: no other is killed in its place.
unsafe fn on_its_way() {
    unsafe {
        let share = hundredth();
        let ends = child(|| {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            take(55 * share);
        });
        wait(ends);
        let options = libc::PTRACE_O_TRACEEXIT as usize;
        ptrace(libc::PTRACE_SETOPTIONS as u32, ends, 0, options);
        ptrace(CONT, ends, 0, 0);
        tell_ok("about to end", wait(ends) >> 16 == libc::PTRACE_EVENT_EXIT);
        let other = child(|| take(50 * share));
        println!("the other ends with {:#x}", wait(other));
        ptrace(CONT, ends, 0, 0);
        println!("it ends with {:#x}", wait(ends));
    }
}

/// The killed process is stopped before it frees its memory, and other processes look it up all the
/// time, on all CPUs: its memory is reaped nevertheless.
unsafe fn stopped() {
    unsafe {
        let share = hundredth();
        let ends = child(|| {
            ptrace(libc::PTRACE_TRACEME as u32, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            take(55 * share);
            libc::raise(libc::SIGSTOP);
        });
        wait(ends);
        let options = libc::PTRACE_O_TRACEEXIT as usize;
        ptrace(libc::PTRACE_SETOPTIONS as u32, ends, 0, options);
        ptrace(CONT, ends, 0, 0);
        wait(ends);
        let lookers: [pid_t; 4] = std::array::from_fn(|_| child(|| look_at(ends)));
        let other = child(|| take(50 * share));
        println!("who wants its memory ends with {:#x}", wait(other));
        for looker in lookers {
            libc::kill(looker, libc::SIGKILL);
            wait(looker);
        }
        tell_ok("killed", wait(ends) >> 16 == libc::PTRACE_EVENT_EXIT);
        ptrace(CONT, ends, 0, 0);
        println!("who stood still ends with {:#x}", wait(ends));
    }
}

/// Looks up a process all the time, until killed.
fn look_at(process: pid_t) {
    let path = format!("/proc/{process}/status");
    loop {
        _ = fs::read(&path);
        // SAFETY: no signal is sent.
        unsafe { libc::kill(process, 0) };
    }
}

/// The largest process is killed; others, which are smaller or want more, continue.
unsafe fn beside() {
    unsafe {
        let share = hundredth();
        let mut ends = [-1; 2];
        libc::pipe(ends.as_mut_ptr());
        let rests = holder(15 * share, ends);
        let most = holder(55 * share, ends);
        let wants = child(|| take(45 * share));
        println!("who wants more ends with {:#x}", wait(wants));
        println!("who has most ends with {:#x}", wait(most));
        libc::close(ends[1]);
        println!("who rests ends with {:#x}", wait(rests));
    }
}

/// The largest process waits to write to a file to which another writes, which waits for memory: it
/// is killed nevertheless, and no other in its place.
unsafe fn behind_a_writer() {
    unsafe {
        let share = hundredth();
        let mut ends = [-1; 2];
        libc::pipe(ends.as_mut_ptr());
        let rests = holder(15 * share, ends);
        let fd = libc::memfd_create(c"shared".as_ptr(), 0);
        let byte = 0u8;
        let most = child(|| {
            take(55 * share);
            loop {
                libc::write(fd, (&raw const byte).cast(), 1);
                libc::usleep(1000);
            }
        });
        while memory("MemAvailable:") > 35 * share {
            libc::usleep(10_000);
        }
        let writer = child(|| {
            with_fresh(45 * share, |from| {
                let written = libc::write(fd, from.cast(), 45 * share);
                tell_ok("it writes all", written == (45 * share) as isize);
            })
        });
        println!("who writes ends with {:#x}", wait(writer));
        println!("who waits behind it ends with {:#x}", wait(most));
        libc::close(fd);
        libc::close(ends[1]);
        println!("who rests ends with {:#x}", wait(rests));
    }
}

/// Another process writes files while one has nearly all memory; that one is killed when more is
/// wanted than there is.
unsafe fn files_beside() {
    let nearly_all = || {
        while memory("MemAvailable:") > memory("MemTotal:") / 32 {
            // SAFETY: maps new memory.
            unsafe { take(MIB) };
        }
    };
    let told = |what: &str, done: io::Result<()>| {
        println!("{what}: {:?}", done.map_err(|error| error.raw_os_error()));
    };
    _ = fs::create_dir(PLACE);
    _ = fs::set_permissions(PLACE, Permissions::from_mode(0o777));
    unsafe {
        let mut ends = [-1; 2];
        libc::pipe(ends.as_mut_ptr());
        let most = holder_after(nearly_all, ends);
        let writer = child(|| {
            libc::setgid(USER);
            libc::setuid(USER);
            let page = [7; PAGE];
            let path = format!("{PLACE}/file");
            told("a file", fs::write(&path, page));
            let fd = libc::memfd_create(c"room".as_ptr(), 0);
            let mut file = File::from_raw_fd(fd);
            told("memory's file", file.write_all(&page));
            let segment = libc::shmget(libc::IPC_PRIVATE, PAGE, 0o600);
            let at = libc::shmat(segment, ptr::null(), 0);
            libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
            at.cast::<u8>().write_volatile(1);
            let written = File::create(&path)
                .and_then(|mut file| (0..32 * MIB / PAGE).try_for_each(|_| file.write_all(&page)));
            told("a large file", written);
            let fd = libc::memfd_create(c"larger".as_ptr(), 0);
            tell("as large", libc::posix_fallocate(fd, 0, 32 << 20));
        });
        println!("who writes ends with {:#x}", wait(writer));
        libc::close(ends[1]);
        println!("who had nearly all ends with {:#x}", wait(most));
    }
    _ = fs::remove_dir_all(PLACE);
}

/// The size of a transfer that must not be cut short, and the number of attempts of each kind.
const TRANSFER: usize = 1 << 18;
const ROUNDS: usize = 100;

/// A process's transfers are complete although others repeatedly use memory until they are killed.
unsafe fn whole_beside() {
    unsafe {
        let keepers: Vec<pid_t> = (0..3).map(|_| child(|| keep_taking())).collect();
        // As each does itself, sooner or later.
        keepers
            .iter()
            .for_each(|&keeper| _ = libc::setpgid(keeper, keeper));
        let mover = child(|| libc::_exit(short_transfers().min(99) as c_int));
        println!("transfers cut short: {}", wait(mover) >> 8);
        for keeper in keepers {
            libc::kill(-keeper, libc::SIGKILL);
            wait(keeper);
        }
    }
}

/// Repeatedly starts a child that uses memory until it is killed.
unsafe fn keep_taking() {
    unsafe {
        libc::setpgid(0, 0);
        loop {
            let taker = child(|| {
                adjust("500");
                loop {
                    take(MIB);
                }
            });
            wait(taker);
        }
    }
}

/// The number of reads and writes of a file and a pipe, with buffers that are not present yet, that
/// were shorter than requested.
unsafe fn short_transfers() -> usize {
    unsafe {
        let path = c"/tmp/whole";
        let mut short = 0;
        let mut expect =
            |count: isize, wanted: usize| short += usize::from(count != wanted as isize);
        for _ in 0..ROUNDS {
            let file = libc::open(
                path.as_ptr(),
                libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
                0o600,
            );
            with_fresh(TRANSFER, |from| {
                ptr::write_bytes(from, 1, TRANSFER);
                expect(libc::write(file, from.cast(), TRANSFER), TRANSFER);
            });
            with_fresh(TRANSFER, |to| {
                expect(libc::pread(file, to.cast(), TRANSFER, 0), TRANSFER)
            });
            libc::close(file);
            let mut pipe = [-1; 2];
            libc::pipe(pipe.as_mut_ptr());
            with_fresh(TRANSFER / 4, |from| {
                expect(
                    libc::write(pipe[1], from.cast(), TRANSFER / 4),
                    TRANSFER / 4,
                )
            });
            let _ = pipe.map(|end| libc::close(end));
        }
        libc::unlink(path.as_ptr());
        short
    }
}

/// Lends fresh memory.
unsafe fn with_fresh(bytes: usize, work: impl FnOnce(*mut u8)) {
    unsafe {
        let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE);
        let at = libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0);
        assert_ne!(at, MAP_FAILED);
        work(at.cast());
        libc::munmap(at, bytes);
    }
}
