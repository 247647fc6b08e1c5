//! System V IPC, POSIX message queues, asynchronous I/O.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{PAGE, call, many, memory_file, name, owned, system_call};

pub const ROWS: &[Row] = &[
    among(
        "msgget",
        10_000,
        msgget,
        "msgget of one of N queues by its key",
    ),
    among(
        "msgrcv_type",
        10_000,
        msgrcv,
        "the last of N messages taken by type, and sent again",
    ),
    among(
        "semop",
        10_000,
        semop,
        "semop of one semaphore of a set of N",
    ),
    among(
        "semget",
        10_000,
        semget,
        "semget of one of N sets by its key",
    ),
    among(
        "shmat",
        1_000,
        shmat,
        "shmat and shmdt beside N that are attached",
    ),
    among(
        "mq_open",
        1_000,
        mq_open,
        "mq_open and close of one of N queues",
    ),
    among(
        "mq_send",
        10_000,
        mq_send,
        "mq_timedsend and mq_timedreceive with N in the queue",
    ),
    among(
        "aio",
        10_000,
        aio,
        "io_submit and io_getevents of N reads of a byte, by read",
    ),
];

const CREATE: i32 = libc::IPC_CREAT | 0o600;

/// Removes objects that outlive the process.
fn remove(number: libc::c_long, ids: &[usize]) {
    for id in ids {
        let _ = match number {
            libc::SYS_semctl => call!(SYS_semctl, *id, 0, libc::IPC_RMID, 0),
            _ => system_call(number, &[*id, libc::IPC_RMID as usize, 0]),
        };
    }
}

fn msgget(meter: &mut Meter) -> Done {
    let ids = many(meter.size(), |index| call!(SYS_msgget, index + 1, CREATE))?;
    let key = meter.size() / 2 + 1;
    let done = meter.repeat(EACH, |_| call!(SYS_msgget, key, 0).map(drop));
    remove(libc::SYS_msgctl, &ids);
    done
}

fn msgrcv(meter: &mut Meter) -> Done {
    let size = meter.size();
    let queue = call!(SYS_msgget, libc::IPC_PRIVATE, CREATE)?;
    let send = |kind: usize| {
        let message = [kind, 0];
        call!(SYS_msgsnd, queue, message.as_ptr(), 8, libc::IPC_NOWAIT).map(drop)
    };
    let mut message = [0usize; 2];
    let done = (1..=size).try_for_each(send).and_then(|()| {
        meter.repeat(EACH, |_| {
            call!(
                SYS_msgrcv,
                queue,
                message.as_mut_ptr(),
                8,
                size,
                libc::IPC_NOWAIT
            )?;
            send(size)
        })
    });
    remove(libc::SYS_msgctl, &[queue]);
    done
}

fn post(set: usize, semaphore: usize) -> Done {
    let operation = libc::sembuf {
        sem_num: semaphore as u16,
        sem_op: 1,
        sem_flg: 0,
    };
    call!(SYS_semop, set, &raw const operation, 1).map(drop)
}

fn semop(meter: &mut Meter) -> Done {
    let size = meter.size();
    let set = call!(SYS_semget, libc::IPC_PRIVATE, size, CREATE)?;
    let done = meter.repeat(EACH, |_| post(set, size - 1));
    remove(libc::SYS_semctl, &[set]);
    done
}

fn semget(meter: &mut Meter) -> Done {
    let ids = many(meter.size(), |index| {
        call!(SYS_semget, index + 1, 1, CREATE)
    })?;
    let key = meter.size() / 2 + 1;
    let done = meter.repeat(EACH, |_| call!(SYS_semget, key, 0, 0).map(drop));
    remove(libc::SYS_semctl, &ids);
    done
}

fn shmat(meter: &mut Meter) -> Done {
    let attach = |id: usize| call!(SYS_shmat, id, 0, 0);
    let ids = many(meter.size() + 1, |_| {
        let id = call!(SYS_shmget, libc::IPC_PRIVATE, PAGE, CREATE)?;
        attach(id)?;
        Ok(id)
    })?;
    let one = ids[meter.size()];
    let done = meter.repeat(EACH, |_| {
        let place = attach(one)?;
        call!(SYS_shmdt, place).map(drop)
    });
    remove(libc::SYS_shmctl, &ids);
    done
}

fn queue(index: usize, messages: usize) -> io::Result<std::os::fd::OwnedFd> {
    let attributes: [libc::c_long; 8] = [0, messages as _, 8, 0, 0, 0, 0, 0];
    let (path, flags) = (name(format!("sizes-{index}")), libc::O_RDWR | libc::O_CREAT);
    call!(
        SYS_mq_open,
        path.as_ptr(),
        flags,
        0o600,
        attributes.as_ptr()
    )
    .map(owned)
}

fn unlink_queues(number: usize) {
    for index in 0..number {
        let path = name(format!("sizes-{index}"));
        let _ = call!(SYS_mq_unlink, path.as_ptr());
    }
}

fn mq_open(meter: &mut Meter) -> Done {
    let size = meter.size();
    let done = many(size, |index| queue(index, 1))
        .and_then(|_open| meter.repeat(EACH, |_| queue(size / 2, 1).map(drop)));
    unlink_queues(size);
    done
}

fn mq_send(meter: &mut Meter) -> Done {
    let size = meter.size();
    let queue = queue(0, size + 1)?;
    let fd = queue.as_raw_fd();
    let (message, mut taken) = ([0u8; 8], [0u8; 8]);
    let send = |index: usize| {
        let priority = index * 7_919 % 10_007;
        call!(SYS_mq_timedsend, fd, message.as_ptr(), 8, priority, 0).map(drop)
    };
    let done = (0..size).try_for_each(send).and_then(|()| {
        meter.repeat(EACH, |index| {
            send(index)?;
            let none = ptr::null::<u8>();
            call!(SYS_mq_timedreceive, fd, taken.as_mut_ptr(), 8, none, none).map(drop)
        })
    });
    unlink_queues(1);
    done
}

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

/// `struct io_event`.
type Event = [u64; 4];

fn aio(meter: &mut Meter) -> Done {
    let size = meter.size();
    let mut context = 0usize;
    call!(SYS_io_setup, size, &raw mut context)?;
    let file = memory_file(PAGE)?;
    let mut byte = 0u8;
    let request = Request {
        fd: file.as_raw_fd() as u32,
        buffer: (&raw mut byte) as u64,
        bytes: 1,
        ..Request::default()
    };
    let requests = vec![request; size];
    let list: Vec<_> = requests.iter().map(ptr::from_ref).collect();
    let mut events: Vec<Event> = vec![[0; 4]; size];
    meter.batches(
        size,
        || Ok(()),
        || {
            call!(SYS_io_submit, context, size, list.as_ptr())?;
            call!(
                SYS_io_getevents,
                context,
                size,
                size,
                events.as_mut_ptr(),
                0
            )
            .map(drop)
        },
    )
}
