//! Memory used up to the last page, by each kind of object in turn: another user continues
//! meanwhile, and all memory comes back.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE,
    SIGKILL,
};

use super::{USER, become_user};
use crate::tell_ok;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const BOTH: i32 = PROT_READ | PROT_WRITE;
/// The user that continues.
const OTHER: u32 = 1001;
const PLACE: &str = "/tmp/exhausted";
/// A holder that is neither refused nor killed within this time uses too little to matter.
const PATIENCE: Duration = Duration::from_secs(4);

/// Allocates a little more; false if that is refused. The argument counts the calls.
type Take = fn(usize) -> bool;

const HOLDERS: &[(&str, Take)] = &[
    ("anonymous", anonymous),
    ("shared", shared),
    ("files", files),
    ("names", names),
    ("attributes", attributes),
    ("pipes", pipes),
    ("sockets", sockets),
    ("tables", tables),
    ("areas", areas),
    ("members", members),
    ("watches", watches),
    ("keys", keys),
    ("segments", segments),
    ("threads", threads),
    ("timers", timers),
    ("signals", signals),
];

/// Runs this part: all holders, or the named one.
pub fn run() {
    let only = std::env::args().nth(3);
    // This process, which only observes, is not to be killed.
    adjust("-1000");
    for (name, take) in HOLDERS {
        if only.as_deref().is_none_or(|only| only == *name) {
            exhaust(name, *take);
        }
    }
}

/// Sets this process's oom_score_adj.
fn adjust(score: &str) {
    _ = fs::write("/proc/self/oom_score_adj", score);
}

fn exhaust(name: &str, take: Take) {
    make_folder();
    let before = free();
    let mut other = child(OTHER, go_on);
    let mut holder = child(USER, |pipe| hold(take, pipe));
    holder.listen();
    // Waits for what it did so far, and for two rounds while no more memory can be had.
    (0..3).for_each(|_| other.listen());
    // The holder's children are in its process group.
    holder.end(-holder.process);
    other.listen();
    other.end(other.process);
    let said = if other.said.is_empty() {
        "goes on"
    } else {
        &other.said
    };
    println!("{name}: another user: {said}");
    remove_segments();
    _ = fs::remove_dir_all(PLACE);
    let is_back = || free() + 16 * 1024 > before;
    let soon = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(50));
        is_back()
    });
    tell_ok(&format!("{name}: memory is back"), soon);
}

/// Free memory in KiB.
fn free() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemFree:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn make_folder() {
    _ = fs::create_dir(PLACE);
    _ = fs::set_permissions(PLACE, fs::Permissions::from_mode(0o777));
}

/// Removes System V segments, which outlive their creator.
fn remove_segments() {
    let list = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    for line in list.lines().skip(1) {
        let number = line.split_whitespace().nth(1);
        if let Some(Ok(number)) = number.map(str::parse) {
            // SAFETY: nobody else uses the segment.
            unsafe { libc::shmctl(number, libc::IPC_RMID, ptr::null_mut()) };
        }
    }
}

/// A child, and the pipe that it writes to.
struct Child {
    process: i32,
    pipe: File,
    /// Its output, without the dots that it writes in each round.
    said: String,
}

impl Child {
    /// Waits until it has written something or ended.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        let len = self.pipe.read(&mut bytes).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..len]);
        self.said += text.trim_start_matches('.');
    }

    /// Kills it, or its process group.
    fn end(&self, whom: i32) {
        // SAFETY: a child of this process.
        unsafe {
            libc::kill(whom, SIGKILL);
            while libc::waitpid(self.process, ptr::null_mut(), 0) < 0 {}
        }
    }
}

fn child(user: u32, work: impl FnOnce(File)) -> Child {
    use std::os::fd::FromRawFd;
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors, which nobody else owns; the child ends here.
    unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC);
        let process = libc::fork();
        let [pipe, end] = ends.map(|end| File::from_raw_fd(end));
        if process == 0 {
            drop(pipe);
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, SIGKILL);
            adjust("0");
            if user == USER {
                become_user();
            } else {
                libc::setgid(user);
                libc::setuid(user);
            }
            work(end);
            libc::_exit(0);
        }
        Child {
            process,
            pipe,
            said: String::new(),
        }
    }
}

/// Allocates as much as it can, for ever; writes a dot when it gets no more.
fn hold(take: impl Fn(usize) -> bool, mut pipe: File) {
    let begin = Instant::now();
    let mut told = false;
    for count in 0.. {
        let more = take(count);
        if !told && (!more || begin.elapsed() > PATIENCE) {
            told = true;
            _ = pipe.write(b".");
        }
        if !more {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reads, writes and executes programs, for ever; writes after each round a dot, or the failure.
fn go_on(mut pipe: File) {
    loop {
        if let Err((step, error)) = round() {
            _ = write!(pipe, "{step}: {error}");
            return;
        }
        _ = pipe.write(b".");
    }
}

fn round() -> Result<(), (&'static str, std::io::Error)> {
    let file = format!("{PLACE}/own");
    let step = |name| move |error| (name, error);
    fs::read("/proc/self/status").map_err(step("read"))?;
    match fs::write(&file, [7; 3 * PAGE]) {
        // A full file system is full for all users.
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {}
        written => {
            written.map_err(step("write"))?;
            let back = fs::read(&file).map_err(step("read back"))?;
            assert!(back == [7; 3 * PAGE]);
            fs::remove_file(&file).map_err(step("remove"))?;
        }
    }
    let mut program = Command::new("/proc/self/exe");
    let program = program.stdout(Stdio::null()).stderr(Stdio::null());
    let status = program.status().map_err(step("program"))?;
    match status.code() {
        Some(_) => Ok(()),
        None => Err(("program", std::io::Error::other("killed"))),
    }
}

/// Maps memory, if possible.
fn map(len: usize, rights: i32, flags: i32) -> Option<*mut u8> {
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags | MAP_ANONYMOUS, -1, 0) };
    (at != MAP_FAILED).then_some(at.cast())
}

/// Writes one byte in every `step` bytes.
fn fill(at: *mut u8, len: usize, step: usize) {
    for offset in (0..len).step_by(step) {
        // SAFETY: inside the mapping, which is writable.
        unsafe { at.add(offset).write_volatile(1) };
    }
}

fn anonymous(_: usize) -> bool {
    map(MIB, BOTH, MAP_PRIVATE)
        .inspect(|&at| fill(at, MIB, PAGE))
        .is_some()
}

fn shared(_: usize) -> bool {
    map(MIB, BOTH, MAP_SHARED | MAP_NORESERVE)
        .inspect(|&at| fill(at, MIB, PAGE))
        .is_some()
}

fn files(_: usize) -> bool {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .append(true)
        .open(format!("{PLACE}/file"));
    file.is_ok_and(|mut file| file.write(&[7; 1 << 16]).is_ok())
}

fn names(count: usize) -> bool {
    let name = format!("{PLACE}/{count:0>200}");
    fs::create_dir(&name).is_ok() && File::create(name + "/file").is_ok()
}

fn attributes(count: usize) -> bool {
    let path = format!("{PLACE}/{}", count / 50);
    if count.is_multiple_of(50) && File::create(&path).is_err() {
        return false;
    }
    let [path, name] = [path, format!("user.{count}")].map(|text| CString::new(text).unwrap());
    let value = [7u8; 60_000];
    // SAFETY: path, name and value are valid.
    unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        ) == 0
    }
}

fn pipes(_: usize) -> bool {
    let mut ends = [-1; 2];
    let bytes = [7u8; 1 << 16];
    // SAFETY: the array has room for two descriptors; the bytes are live.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK) < 0 {
            return false;
        }
        libc::fcntl(ends[1], libc::F_SETPIPE_SZ, MIB);
        while libc::write(ends[1], bytes.as_ptr().cast(), bytes.len()) > 0 {}
    }
    true
}

fn sockets(_: usize) -> bool {
    let mut ends = [-1; 2];
    let bytes = [7u8; 1 << 15];
    // SAFETY: the array has room for two descriptors; the bytes are live.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) < 0 {
            return false;
        }
        for end in ends {
            while libc::write(end, bytes.as_ptr().cast(), bytes.len()) > 0 {}
        }
    }
    true
}

fn tables(_: usize) -> bool {
    const LEN: usize = 64 << 20;
    let at = map(LEN, PROT_READ, MAP_PRIVATE | MAP_NORESERVE);
    at.inspect(|&at| {
        for offset in (0..LEN).step_by(2 * MIB) {
            // SAFETY: inside the mapping.
            unsafe { at.add(offset).read_volatile() };
        }
    })
    .is_some()
}

/// Children, each with as many areas as a process may have.
fn areas(count: usize) -> bool {
    const PAGES: usize = 60_000;
    if count == 0
        && let Some(at) = map(PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_NORESERVE)
    {
        for page in (0..PAGES).step_by(2) {
            // SAFETY: inside the mapping.
            unsafe { libc::mprotect(at.add(page * PAGE).cast(), PAGE, libc::PROT_NONE) };
        }
    }
    stay()
}

/// Starts a child that stays; false if that fails.
fn stay() -> bool {
    // SAFETY: the child does nothing.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            // Closes the pipe too, so that its reader sees the end of the holder.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
            loop {
                libc::pause();
            }
        }
        child > 0
    }
}

fn members(count: usize) -> bool {
    // SAFETY: only descriptors and a live event are passed.
    unsafe {
        let set = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let add = |fd: i32, event| libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, event) == 0;
        count < 100_000 && set >= 0 && (0..set).filter(|&fd| add(fd, &mut event)).count() > 0
    }
}

fn watches(count: usize) -> bool {
    let path = format!("{PLACE}/{count}");
    if File::create(&path).is_err() {
        return false;
    }
    let path = CString::new(path).unwrap();
    // SAFETY: the path is NUL-terminated.
    unsafe {
        let instance = libc::inotify_init();
        instance >= 0 && libc::inotify_add_watch(instance, path.as_ptr(), libc::IN_ALL_EVENTS) >= 0
    }
}

fn keys(count: usize) -> bool {
    let name = CString::new(format!("{count}")).unwrap();
    let value = [7u8; 1000];
    // SAFETY: type, name and value are valid.
    unsafe {
        let (kind, to) = (c"user".as_ptr(), libc::KEY_SPEC_PROCESS_KEYRING);
        libc::syscall(
            libc::SYS_add_key,
            kind,
            name.as_ptr(),
            value.as_ptr(),
            value.len(),
            to,
        ) >= 0
    }
}

fn segments(_: usize) -> bool {
    // SAFETY: this function's own segment.
    unsafe {
        let number = libc::shmget(libc::IPC_PRIVATE, MIB, 0o600);
        let at = libc::shmat(number, ptr::null(), 0);
        if number < 0 || at.addr() == usize::MAX {
            return false;
        }
        fill(at.cast(), MIB, PAGE);
        libc::shmdt(at);
    }
    true
}

fn threads(_: usize) -> bool {
    let park = || loop {
        thread::park();
    };
    thread::Builder::new()
        .stack_size(16 << 10)
        .spawn(park)
        .is_ok()
}

fn timers(_: usize) -> bool {
    let mut timer = ptr::null_mut();
    // SAFETY: the call writes the timer's ID.
    unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &mut timer) == 0 }
}

fn signals(_: usize) -> bool {
    // SAFETY: this function's own set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGRTMIN());
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        libc::sigqueue(libc::getpid(), libc::SIGRTMIN(), std::mem::zeroed()) == 0
    }
}
