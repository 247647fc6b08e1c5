//! System V IPC, message queues and asynchronous I/O, with 32-bit structures.

use std::ptr;

use libc::{IPC_CREAT, IPC_NOWAIT, IPC_PRIVATE, IPC_RMID, IPC_STAT, c_int, c_long};

use crate::tell;

const SEMTIMEDOP_TIME64: c_long = 420;
const MQ_TIMEDSEND_TIME64: c_long = 418;
const MQ_TIMEDRECEIVE_TIME64: c_long = 419;
/// The flag for the present structures, and the commands.
const IPC_64: c_int = 0x100;
const IPC_SET: c_int = 1;
const IPC_INFO: c_int = 3;

/// Runs this part.
pub fn run() {
    // SAFETY: the calls get their own memory.
    unsafe {
        semaphores();
        messages();
        segments();
        queues();
        requests();
    }
}

/// The word of a status with its sequence number.
const SEQUENCE: usize = 6;

/// Shows the words of a status, but not the values of those that differ from run to run.
fn shown(words: &[u32], unsteady: &[usize]) -> Vec<String> {
    let word = |(at, word): (usize, &u32)| match unsteady.contains(&at) {
        _ if at == SEQUENCE => "*".to_owned(),
        true => (if *word == 0 { "0" } else { "*" }).to_owned(),
        false => format!("{word:x}"),
    };
    words.iter().enumerate().map(word).collect()
}

unsafe fn semaphores() {
    unsafe {
        let set = libc::syscall(libc::SYS_semget, IPC_PRIVATE, 3, IPC_CREAT | 0o640);
        tell("semget", (set >= 0).into());
        let control = |at: c_int, command: c_int, argument: usize| {
            libc::syscall(libc::SYS_semctl, set, at, command | IPC_64, argument)
        };
        tell("SETVAL", control(1, libc::SETVAL, 7).into());
        tell("SETVAL, too much", control(1, libc::SETVAL, 32768).into());
        let mut values = [9u16; 4];
        tell(
            "GETALL",
            control(0, libc::GETALL, values.as_mut_ptr() as usize).into(),
        );
        println!("  {values:?}");
        let operation = [2u16, u16::MAX, 0];
        for (number, span) in [
            (libc::SYS_semtimedop, [0i32, 10_000_000, 0, 0]),
            (SEMTIMEDOP_TIME64, [0, 0, 10_000_000, -1]),
            (libc::SYS_semtimedop, [0, 1_000_000_000, 0, 0]),
        ] {
            let (operation, span) = (operation.as_ptr(), span.as_ptr());
            tell(
                "semtimedop",
                libc::syscall(number, set, operation, 1, span).into(),
            );
        }
        let more = [2u16, 1, 0];
        tell(
            "semop",
            libc::syscall(libc::SYS_semop, set, more.as_ptr(), 1).into(),
        );
        let mut status = [0xffff_ffffu32; 17];
        tell(
            "IPC_STAT",
            control(0, IPC_STAT, status.as_mut_ptr() as usize).into(),
        );
        println!("  {:?}", shown(&status, &[9, 11]));
        status[1..3].copy_from_slice(&[33, 44]);
        status[5] = 0xffff_01a4;
        tell(
            "IPC_SET",
            control(0, IPC_SET, status.as_ptr() as usize).into(),
        );
        control(0, IPC_STAT, status.as_mut_ptr() as usize);
        println!("  {:?}", &status[1..6]);
        tell("to a hole", control(0, IPC_STAT, 0x10).into());
        tell("of a command that is none", control(0, 77, 0).into());
        tell("IPC_RMID", control(0, IPC_RMID, 0).into());
    }
}

unsafe fn messages() {
    unsafe {
        let queue = libc::syscall(libc::SYS_msgget, IPC_PRIVATE, IPC_CREAT | 0o600);
        tell("msgget", (queue >= 0).into());
        let message = [5u32, u32::from_ne_bytes(*b"text")];
        for kind in [5u32, 9, 0, u32::MAX] {
            let message = [kind, message[1]];
            let sent = libc::syscall(libc::SYS_msgsnd, queue, message.as_ptr(), 4, IPC_NOWAIT);
            tell(&format!("msgsnd {}", kind as i32), sent.into());
        }
        let control = |command: c_int, to: usize| {
            libc::syscall(libc::SYS_msgctl, queue, command | IPC_64, to)
        };
        let mut status = [0xffff_ffffu32; 23];
        tell(
            "IPC_STAT",
            control(IPC_STAT, status.as_mut_ptr() as usize).into(),
        );
        println!("  {:?}", shown(&status, &[9, 11, 13, 18, 19]));
        status[17] = 100;
        tell("IPC_SET", control(IPC_SET, status.as_ptr() as usize).into());
        control(IPC_STAT, status.as_mut_ptr() as usize);
        println!("  {}", status[17]);
        let mut got = [0u32; 4];
        for (kind, len) in [(-9i32, 8i32), (-4, 8), (9, 2), (9, 8), (0, -1)] {
            let to = got.as_mut_ptr();
            tell(
                &format!("msgrcv {kind}"),
                libc::syscall(libc::SYS_msgrcv, queue, to, len, kind, IPC_NOWAIT).into(),
            );
            println!("  {got:x?}");
        }
        tell("IPC_RMID", control(IPC_RMID, 0).into());
    }
}

unsafe fn segments() {
    unsafe {
        let segment = libc::syscall(libc::SYS_shmget, IPC_PRIVATE, 5000, IPC_CREAT | 0o600);
        tell("shmget", (segment >= 0).into());
        let control = |command: c_int, to: usize| {
            libc::syscall(libc::SYS_shmctl, segment, command | IPC_64, to)
        };
        let at = |address: usize, flags: c_int| {
            libc::syscall(libc::SYS_shmat, segment, address, flags) as usize
        };
        let first = at(0, 0);
        ptr::with_exposed_provenance_mut::<u32>(first).write(77);
        // Rounded down to a multiple of four pages.
        let rounded = at(0x5555_7123, libc::SHM_RND);
        println!("rounded to {rounded:#x}");
        println!(
            "reads {}",
            ptr::with_exposed_provenance::<u32>(rounded).read()
        );
        tell("at a page", (at(0x5556_1000, 0) == 0x5556_1000).into());
        tell("at no page", at(0x5557_1001, 0) as i32 as i64);
        let mut status = [0xffff_ffffu32; 21];
        tell(
            "IPC_STAT",
            control(IPC_STAT, status.as_mut_ptr() as usize).into(),
        );
        println!("  {:?}", shown(&status, &[10, 12, 14, 16, 17]));
        tell("shmdt", libc::syscall(libc::SYS_shmdt, rounded).into());
        tell(
            "shmdt again",
            libc::syscall(libc::SYS_shmdt, rounded).into(),
        );
        let mut limits = [0u32; 9];
        tell(
            "IPC_INFO",
            (control(IPC_INFO, limits.as_mut_ptr() as usize) >= 0).into(),
        );
        println!("  {limits:x?}");
        tell("IPC_RMID", control(IPC_RMID, 0).into());
    }
}

unsafe fn queues() {
    unsafe {
        let attributes = [0i32, 3, 16, 0, 0, 0, 0, 0];
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK;
        let open = |attributes: &[i32; 8]| {
            libc::syscall(
                libc::SYS_mq_open,
                c"q".as_ptr(),
                flags,
                0o600,
                attributes.as_ptr(),
            )
        };
        tell(
            "a negative length",
            open(&[0, -1, 16, 0, 0, 0, 0, 0]).into(),
        );
        let queue = open(&attributes);
        tell("mq_open", (queue >= 0).into());
        let span = [i32::MAX, 0, 0, 0];
        for (number, priority) in [(libc::SYS_mq_timedsend, 3), (MQ_TIMEDSEND_TIME64, 4)] {
            let sent = libc::syscall(number, queue, c"words".as_ptr(), 5, priority, span.as_ptr());
            tell("mq_timedsend", sent.into());
        }
        let mut shown = [-1i32; 8];
        let none = ptr::null::<u8>();
        tell(
            "mq_getsetattr",
            libc::syscall(libc::SYS_mq_getsetattr, queue, none, shown.as_mut_ptr()).into(),
        );
        println!("  {shown:?}");
        let (mut bytes, mut priority) = ([0u8; 16], 0u32);
        for number in [
            libc::SYS_mq_timedreceive,
            MQ_TIMEDRECEIVE_TIME64,
            MQ_TIMEDRECEIVE_TIME64,
        ] {
            let to = bytes.as_mut_ptr();
            let got = libc::syscall(number, queue, to, 16, &raw mut priority, span.as_ptr());
            tell("mq_timedreceive", got.into());
            println!("  priority {priority}");
        }
        // `struct sigevent`: the value, the signal, and how to notify.
        let event = [
            0x1234_5678u32,
            libc::SIGUSR1 as u32,
            libc::SIGEV_SIGNAL as u32,
            0,
        ];
        tell(
            "mq_notify",
            libc::syscall(libc::SYS_mq_notify, queue, event.as_ptr()).into(),
        );
        crate::timers::block(libc::SIGUSR1);
        libc::syscall(libc::SYS_mq_timedsend, queue, c"x".as_ptr(), 1, 0, none);
        crate::timers::take("notified", libc::SIGUSR1);
        tell(
            "mq_unlink",
            libc::syscall(libc::SYS_mq_unlink, c"q".as_ptr()).into(),
        );
    }
}

/// A `struct iocb`: data, key and flags; operation, priority and file; buffer, length, offset; and
/// unused words.
fn request(operation: u32, file: c_long, buffer: usize, len: usize) -> [u32; 16] {
    let (buffer, len) = (buffer as u32, len as u32);
    [
        9,
        0,
        0,
        0,
        operation,
        file as u32,
        buffer,
        0,
        len,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
}

unsafe fn requests() {
    unsafe {
        let mut context = 0u32;
        tell(
            "io_setup",
            libc::syscall(libc::SYS_io_setup, 4, &raw mut context).into(),
        );
        let file = libc::syscall(libc::SYS_memfd_create, c"f".as_ptr(), 0);
        let mut bytes = [*b"words", *b"-----"];
        let mut piece = libc::iovec {
            iov_base: bytes[1].as_mut_ptr().cast(),
            iov_len: 5,
        };
        let write = request(1, file, bytes[0].as_ptr() as usize, 5);
        let read = request(7, file, &raw mut piece as usize, 1);
        let list = [&raw const write, &raw const read];
        tell(
            "io_submit",
            libc::syscall(libc::SYS_io_submit, context, 2, list.as_ptr()).into(),
        );
        let mut events = [[0u64; 4]; 3];
        let span = [0i32, 1000, 0, 0];
        let (to, span) = (events.as_mut_ptr(), span.as_ptr());
        tell(
            "io_getevents",
            libc::syscall(libc::SYS_io_getevents, context, 1, 3, to, span).into(),
        );
        println!(
            "  {:?} {:?}",
            events.map(|event| event[2]),
            std::str::from_utf8(&bytes[1])
        );
        tell(
            "none",
            libc::syscall(libc::SYS_io_getevents, context, 0, 3, to, span).into(),
        );
        let mask = [0u32; 2];
        tell(
            "io_pgetevents",
            libc::syscall(399, context, 0, 3, to, span, mask.as_ptr()).into(),
        );
        tell(
            "its 64 bits",
            libc::syscall(416, context, 0, 3, to, span, mask.as_ptr()).into(),
        );
        tell(
            "-1 requests",
            libc::syscall(libc::SYS_io_submit, context, -1, list.as_ptr()).into(),
        );
        tell(
            "io_destroy",
            libc::syscall(libc::SYS_io_destroy, context).into(),
        );
    }
}

/// 32-bit programs cannot use /dev/kvm.
pub fn hypervisor() {
    // SAFETY: the path ends with a zero byte.
    let file = unsafe { libc::open(c"/dev/kvm".as_ptr(), libc::O_RDWR) };
    tell("/dev/kvm", file.into());
}
