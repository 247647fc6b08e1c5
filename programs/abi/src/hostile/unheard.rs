//! Calls with very many parts, or that wait for a word that another program changes: a kill ends
//! them, and other programs run meanwhile.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_SHARED, O_NOCTTY, O_RDWR, PROT_READ, PROT_WRITE, c_int, iovec,
};

use super::become_user;
use crate::{in_child, tell, tell_end};

const MIB: usize = 1 << 20;
/// The time that a call runs before it is killed.
const WHILE: Duration = Duration::from_millis(200);

/// Runs this part.
pub fn run() {
    in_child(|| {
        become_user();
        // SAFETY: all pointers are to live values of these functions; children end by _exit.
        unsafe {
            erased();
            unseen();
            changing();
            submitted();
            set();
        }
    });
}

unsafe fn child(work: impl FnOnce()) -> c_int {
    let child = unsafe { libc::fork() };
    if child == 0 {
        work();
        unsafe { libc::_exit(0) };
    }
    child
}

unsafe fn end(child: c_int) -> c_int {
    let mut status = 0;
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    status
}

/// Runs `work`, which takes long, and prints how it ends when it is killed.
unsafe fn tell_killed(what: &str, work: impl FnOnce()) {
    unsafe {
        let child = child(work);
        thread::sleep(WHILE);
        tell_end(what, end(child));
    }
}

/// Writes 1 GiB of one byte in one call.
unsafe fn write_much(file: c_int, byte: u8) {
    let buffer = vec![byte; MIB];
    let piece = iovec {
        iov_base: buffer.as_ptr().cast_mut().cast(),
        iov_len: MIB,
    };
    unsafe { libc::writev(file, [piece; 1024].as_ptr(), 1024) };
}

unsafe fn terminal() -> [c_int; 2] {
    unsafe {
        let master = libc::open(c"/dev/ptmx".as_ptr(), O_RDWR | O_NOCTTY);
        let mut locked = 0;
        libc::ioctl(master, libc::TIOCSPTLCK, &raw mut locked);
        let slave = libc::ioctl(master, libc::TIOCGPTPEER, O_RDWR | O_NOCTTY);
        [master, slave]
    }
}

/// The typed bytes erase an empty line, so that the line never fills.
unsafe fn erased() {
    unsafe {
        let [master, slave] = terminal();
        tell_killed("erase", || write_much(master, 0x7f));
        libc::close(master);
        libc::close(slave);
    }
}

/// The written bytes have no effect in the first column, so that the screen never fills.
unsafe fn unseen() {
    unsafe {
        let [master, slave] = terminal();
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(slave, &mut settings);
        settings.c_oflag = libc::OPOST | libc::ONOCR;
        tell("settings", libc::tcsetattr(slave, libc::TCSANOW, &settings));
        tell_killed("carriage returns", || write_much(slave, b'\r'));
        libc::close(master);
        libc::close(slave);
    }
}

/// Operations on a futex word that changes all the time, and on a lock whose owner does.
unsafe fn changing() {
    const WAIT: c_int = 0;
    const WAKE_OP: c_int = 5;
    const LOCK_PI: c_int = 6;
    const WAITERS: u32 = 1 << 31;
    unsafe {
        let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
        let words = libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0);
        assert!(words != MAP_FAILED);
        let words = &*words.cast::<[AtomicU32; 2]>();
        let word = words[1].as_ptr();
        let adds = child(|| {
            loop {
                words[1].fetch_add(1, Relaxed);
            }
        });
        tell_killed("changes of a word", || {
            let add = 1 << 28 | 1 << 12;
            loop {
                libc::syscall(libc::SYS_futex, words[0].as_ptr(), WAKE_OP, 0, 0, word, add);
            }
        });
        end(adds);
        // IDs that no thread has.
        let owns = child(|| {
            for owner in (0x3f00_0000..0x3fff_ffff).cycle() {
                words[1].store(WAITERS | owner, Relaxed);
            }
        });
        tell_killed("a lock", || {
            loop {
                libc::syscall(libc::SYS_futex, word, LOCK_PI, 0, 0);
            }
        });
        end(owns);
        tell("a wait", libc::syscall(libc::SYS_futex, word, WAIT, 0, 0));
    }
}

/// `struct iocb`, with the fields used here.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: [u32; 2],
    operation: u16,
    priority: i16,
    file: u32,
    pieces: u64,
    count: u64,
    rest: [u64; 3],
}

/// Submits a request with many buffers, many times.
unsafe fn submitted() {
    const READ_PIECES: u16 = 7;
    const TIMES: usize = 8192;
    unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        let nothing = iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        let pieces = [nothing; 1024];
        let request = Request {
            operation: READ_PIECES,
            file: file as u32,
            pieces: pieces.as_ptr() as u64,
            count: 1024,
            ..Request::default()
        };
        let requests = vec![&raw const request; TIMES];
        let mut context = 0usize;
        let to = &raw mut context;
        tell("setup", libc::syscall(libc::SYS_io_setup, TIMES, to));
        let list = requests.as_ptr();
        let done = libc::syscall(libc::SYS_io_submit, context, TIMES, list);
        tell("requests", done);
        let mut events = vec![[0u64; 4]; TIMES];
        let to = events.as_mut_ptr();
        let taken = libc::syscall(libc::SYS_io_getevents, context, 0, TIMES, to, 0);
        tell("events", taken);
        libc::syscall(libc::SYS_io_destroy, context);
        libc::close(file);
    }
}

/// Sets all semaphores of a set that many processes have undo values for.
unsafe fn set() {
    const SEMAPHORES: c_int = 32_000;
    const PROCESSES: usize = 100;
    unsafe {
        let id = libc::semget(libc::IPC_PRIVATE, SEMAPHORES, 0o600);
        let mut ready = [0; 2];
        libc::pipe(ready.as_mut_ptr());
        let children: Vec<c_int> = (0..PROCESSES)
            .map(|_| {
                child(|| {
                    let mut add = libc::sembuf {
                        sem_num: 1,
                        sem_op: 1,
                        sem_flg: libc::SEM_UNDO as i16,
                    };
                    libc::semop(id, &mut add, 1);
                    libc::write(ready[1], c"x".as_ptr().cast(), 1);
                    libc::pause();
                })
            })
            .collect();
        for _ in &children {
            let mut byte = 0u8;
            libc::read(ready[0], (&raw mut byte).cast(), 1);
        }
        tell("added", libc::semctl(id, 1, libc::GETVAL));
        let values = vec![7u16; SEMAPHORES as usize];
        tell("set", libc::semctl(id, 0, libc::SETALL, values.as_ptr()));
        for child in children {
            end(child);
        }
        // The earlier additions are not undone.
        tell("left", libc::semctl(id, 1, libc::GETVAL));
        libc::semctl(id, 0, libc::IPC_RMID);
    }
}
