//! The system calls that the rows use. Numbers and flags come from Linux's `asm-generic/unistd.h`
//! and related headers, which arm64 and RISC-V share.

use crate::arch;

/// A positive error number of Linux.
#[derive(Clone, Copy)]
pub struct Errno(pub usize);

pub type Result<T> = core::result::Result<T, Errno>;

pub const STDOUT: usize = 1;

pub const PROT_NONE: usize = 0;
pub const PROT_READ: usize = 1;
pub const PROT_WRITE: usize = 2;

pub const MAP_SHARED: usize = 0x01;
pub const MAP_PRIVATE: usize = 0x02;
pub const MAP_FIXED: usize = 0x10;
pub const MAP_ANONYMOUS: usize = 0x20;
pub const MAP_NORESERVE: usize = 0x4000;

pub const MADV_DONTNEED: usize = 4;
pub const MADV_HUGEPAGE: usize = 14;
pub const MADV_NOHUGEPAGE: usize = 15;

pub const SIGCHLD: usize = 17;
pub const SIGUSR1: usize = 10;

pub const FUTEX_WAIT: usize = 0;
pub const FUTEX_WAKE: usize = 1;
pub const FUTEX_PRIVATE: usize = 128;

const O_RDWR: usize = 0o2;
const O_CREAT: usize = 0o100;
const O_EXCL: usize = 0o200;
const AT_FDCWD: usize = -100isize as usize;

pub const CLONE_VM: usize = 0x100;
pub const CLONE_VFORK: usize = 0x4000;
/// The flags of a thread: it shares everything, and at its end the kernel clears a word and wakes
/// its waiters.
pub const CLONE_OF_THREAD: usize =
    CLONE_VM | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | CLONE_CHILD_CLEARTID;
const CLONE_CHILD_CLEARTID: usize = 0x20_0000;

/// System-call numbers.
pub mod number {
    pub const UNLINKAT: usize = 35;
    pub const FTRUNCATE: usize = 46;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const EXIT: usize = 93;
    pub const EXIT_GROUP: usize = 94;
    pub const FUTEX: usize = 98;
    pub const NANOSLEEP: usize = 101;
    #[cfg(target_arch = "riscv64")]
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_SETAFFINITY: usize = 122;
    pub const TGKILL: usize = 131;
    pub const RT_SIGACTION: usize = 134;
    pub const REBOOT: usize = 142;
    pub const UNAME: usize = 160;
    pub const GETRUSAGE: usize = 165;
    pub const GETPID: usize = 172;
    pub const GETPPID: usize = 173;
    pub const GETTID: usize = 178;
    pub const MUNMAP: usize = 215;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MADVISE: usize = 233;
    pub const WAIT4: usize = 260;
    pub const MEMFD_CREATE: usize = 279;
}

/// Turns a raw return value into a result.
pub fn checked(value: isize) -> Result<usize> {
    if (-4095..0).contains(&value) {
        Err(Errno(value.unsigned_abs()))
    } else {
        Ok(value as usize)
    }
}

#[inline(always)]
fn call(number: usize, arguments: [usize; 6]) -> Result<usize> {
    // SAFETY: only the functions below call this, each with arguments that are valid for its system
    // call; pointers are to live memory of this process.
    checked(unsafe { arch::syscall(number, arguments) })
}

/// Maps memory.
#[inline(always)]
pub fn mmap(at: usize, length: usize, prot: usize, flags: usize, fd: isize) -> Result<usize> {
    call(number::MMAP, [at, length, prot, flags, fd as usize, 0])
}

/// Maps zeroed memory that is never unmapped.
pub fn memory(length: usize) -> Option<&'static mut [u8]> {
    let kind = MAP_PRIVATE | MAP_ANONYMOUS;
    let at = mmap(0, length, PROT_READ | PROT_WRITE, kind, -1).ok()?;
    // SAFETY: the mapping is new, so nothing else refers to it, and it stays.
    Some(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, length) })
}

/// Unmaps memory.
#[inline(always)]
pub fn munmap(at: usize, length: usize) -> Result<()> {
    call(number::MUNMAP, [at, length, 0, 0, 0, 0]).map(drop)
}

/// Changes access rights of memory.
#[inline(always)]
pub fn mprotect(at: usize, length: usize, prot: usize) -> Result<()> {
    call(number::MPROTECT, [at, length, prot, 0, 0, 0]).map(drop)
}

/// Advises the kernel about memory.
pub fn madvise(at: usize, length: usize, advice: usize) -> Result<()> {
    call(number::MADVISE, [at, length, advice, 0, 0, 0]).map(drop)
}

/// Reads into `bytes`.
#[inline(always)]
pub fn read(fd: usize, bytes: &mut [u8]) -> Result<usize> {
    call(
        number::READ,
        [fd, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0],
    )
}

/// Writes `bytes`.
#[inline(always)]
pub fn write(fd: usize, bytes: &[u8]) -> Result<usize> {
    call(
        number::WRITE,
        [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0],
    )
}

/// Closes a descriptor.
pub fn close(fd: usize) {
    let _ = call(number::CLOSE, [fd, 0, 0, 0, 0, 0]);
}

/// Creates a pipe: the read end and the write end.
pub fn pipe() -> Result<(usize, usize)> {
    let mut ends = [0u32; 2];
    call(number::PIPE2, [ends.as_mut_ptr() as usize, 0, 0, 0, 0, 0])?;
    Ok((ends[0] as usize, ends[1] as usize))
}

/// Creates an unnamed file of `length` bytes in memory: a memfd, or else a file in /tmp.
pub fn memory_file(length: usize) -> Result<usize> {
    let name = c"/tmp/crossings".as_ptr() as usize;
    let fd = match call(number::MEMFD_CREATE, [name + 5, 0, 0, 0, 0, 0]) {
        Ok(fd) => fd,
        Err(_) => {
            let flags = O_RDWR | O_CREAT | O_EXCL;
            let fd = call(number::OPENAT, [AT_FDCWD, name, flags, 0o600, 0, 0])?;
            call(number::UNLINKAT, [AT_FDCWD, name, 0, 0, 0, 0])?;
            fd
        }
    };
    call(number::FTRUNCATE, [fd, length, 0, 0, 0, 0])?;
    Ok(fd)
}

/// Opens a file for reading.
pub fn open(path: &core::ffi::CStr) -> Result<usize> {
    call(
        number::OPENAT,
        [AT_FDCWD, path.as_ptr() as usize, 0, 0, 0, 0],
    )
}

/// Waits while `word` holds `value`.
#[inline(always)]
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32, private: usize) {
    // Callers loop, so an early return is harmless.
    let _ = call(
        number::FUTEX,
        [
            word.as_ptr() as usize,
            FUTEX_WAIT | private,
            value as usize,
            0,
            0,
            0,
        ],
    );
}

/// Wakes up to `most` waiters of `word` in this process.
#[inline(always)]
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, most: usize) {
    let operation = FUTEX_WAKE | FUTEX_PRIVATE;
    let _ = call(
        number::FUTEX,
        [word.as_ptr() as usize, operation, most, 0, 0, 0],
    );
}

/// Sends a signal to a thread of this process.
#[inline(always)]
pub fn tgkill(process: usize, thread: usize, signal: usize) -> Result<()> {
    call(number::TGKILL, [process, thread, signal, 0, 0, 0]).map(drop)
}

/// Installs a signal's action.
#[inline(always)]
pub fn sigaction(signal: usize, action: &arch::SignalAction) -> Result<()> {
    let set_bytes = size_of::<u64>();
    call(
        number::RT_SIGACTION,
        [signal, action as *const _ as usize, 0, set_bytes, 0, 0],
    )
    .map(drop)
}

/// The result of uname: six fields of 65 bytes, each with a zero byte at its end.
pub struct Names([[u8; 65]; 6]);

impl Names {
    /// A field as text.
    pub fn field(&self, field: usize) -> &str {
        let text = core::ffi::CStr::from_bytes_until_nul(&self.0[field]);
        text.ok()
            .and_then(|text| text.to_str().ok())
            .unwrap_or_default()
    }
}

/// Calls uname.
pub fn uname() -> Names {
    let mut names = Names([[0; 65]; 6]);
    let _ = call(
        number::UNAME,
        [names.0.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
    );
    names
}

/// The CPU time of the process, in user mode and in the kernel, in nanoseconds.
pub fn times() -> (u64, u64) {
    // struct rusage: two times in seconds and microseconds, and fourteen numbers.
    let mut usage = [0u64; 18];
    let _ = call(
        number::GETRUSAGE,
        [0, usage.as_mut_ptr() as usize, 0, 0, 0, 0],
    );
    let nanoseconds = |at: usize| usage[at] * 1_000_000_000 + usage[at + 1] * 1000;
    (nanoseconds(0), nanoseconds(2))
}

/// The process ID.
pub fn getpid() -> usize {
    call(number::GETPID, [0; 6]).unwrap_or(0)
}

/// The thread ID.
pub fn gettid() -> usize {
    call(number::GETTID, [0; 6]).unwrap_or(0)
}

/// Copies the process; returns zero in the child.
#[inline(always)]
pub fn fork() -> Result<usize> {
    call(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0])
}

/// Waits for the child `process` to end.
#[inline(always)]
pub fn wait(process: usize) -> Result<()> {
    call(number::WAIT4, [process, 0, 0, 0, 0, 0]).map(drop)
}

/// Pins this thread, and those that it starts, to one CPU.
pub fn pin(cpu: usize) -> Result<()> {
    let mut mask = [0u64; 16];
    *mask.get_mut(cpu / 64).ok_or(Errno(22))? = 1 << (cpu % 64);
    call(
        number::SCHED_SETAFFINITY,
        [0, size_of_val(&mask), mask.as_ptr() as usize, 0, 0, 0],
    )
    .map(drop)
}

/// Sleeps.
pub fn sleep_ms(milliseconds: usize) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let _ = call(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]);
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[cfg(target_arch = "riscv64")]
pub fn monotonic() -> Result<u64> {
    let mut time = [0u64; 2];
    call(
        number::CLOCK_GETTIME,
        [1, time.as_mut_ptr() as usize, 0, 0, 0, 0],
    )?;
    Ok(time[0] * 1_000_000_000 + time[1])
}

/// Ends the process.
pub fn exit_group(status: i32) -> ! {
    loop {
        let _ = call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]);
    }
}

/// Powers the machine off.
pub fn power_off() {
    let _ = call(
        number::REBOOT,
        [0xfee1_dead, 672_274_793, 0x4321_fedc, 0, 0, 0],
    );
}
