//! System V IPC, message queues, keys.

use std::{mem, ptr};

use libc::{
    EAGAIN, EDQUOT, ENFILE, ENOSPC, IPC_CREAT, IPC_EXCL, IPC_PRIVATE, IPC_RMID, O_CREAT, O_EXCL,
    O_RDWR, c_int, c_long,
};

use super::{Starved, close};
use crate::path;

pub unsafe fn run(starved: &Starved) {
    unsafe {
        semaphores(starved);
        messages(starved);
        segments(starved);
        queues(starved);
        keys(starved);
    }
}

unsafe fn semaphores(starved: &Starved) {
    unsafe {
        let remove = |set: c_long| libc::semctl(set as c_int, 0, IPC_RMID) == 0;
        let key = 0x5eed;
        starved.each(
            "semget",
            &[ENOSPC],
            || libc::semget(key, 3, IPC_CREAT | IPC_EXCL | 0o600).into(),
            |result| {
                let there = libc::semget(key, 0, 0);
                (there == -1) == (result == -1) && (result == -1 || remove(result))
            },
        );
        let set = libc::semget(IPC_PRIVATE, 3, 0o600);
        let value = || libc::semctl(set, 1, libc::GETVAL);
        let one = libc::sembuf {
            sem_num: 1,
            sem_op: 1,
            sem_flg: libc::SEM_UNDO as i16,
        };
        let mut many = [one; 100];
        starved.each(
            "semop undo",
            &[ENOSPC],
            || libc::semop(set, many.as_mut_ptr(), 1).into(),
            |result| {
                let so = value() == if result == 0 { 1 } else { 0 };
                let mut back = libc::sembuf { sem_op: -1, ..one };
                so && (result == -1 || libc::semop(set, &mut back, 1) == 0)
            },
        );
        let mut plain = [libc::sembuf { sem_flg: 0, ..one }; 100];
        starved.each(
            "semop many",
            &[],
            || libc::semop(set, plain.as_mut_ptr(), 100).into(),
            |result| {
                let so = value() == if result == 0 { 100 } else { 0 };
                so && libc::semctl(set, 1, libc::SETVAL, 0) == 0
            },
        );
        let mut waits = libc::sembuf {
            sem_op: -1,
            sem_flg: 0,
            ..one
        };
        let soon = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1,
        };
        starved.each(
            "semtimedop",
            &[EAGAIN],
            || match libc::syscall(libc::SYS_semtimedop, set, &mut waits, 1, &soon) {
                -1 if *libc::__errno_location() == EAGAIN => 0,
                result => result,
            },
            |_| value() == 0,
        );
        remove(set.into());
    }
}

unsafe fn messages(starved: &Starved) {
    unsafe {
        let remove = |queue: c_long| libc::msgctl(queue as c_int, IPC_RMID, ptr::null_mut()) == 0;
        let key = 0x5eee;
        starved.each(
            "msgget",
            &[ENOSPC],
            || libc::msgget(key, IPC_CREAT | IPC_EXCL | 0o600).into(),
            |result| {
                let there = libc::msgget(key, 0);
                (there == -1) == (result == -1) && (result == -1 || remove(result))
            },
        );
        let queue = libc::msgget(IPC_PRIVATE, 0o600);
        let count = || {
            let mut about: libc::msqid_ds = mem::zeroed();
            libc::msgctl(queue, libc::IPC_STAT, &mut about);
            about.msg_qnum
        };
        let message = [9u64; 1000];
        let mut room = [0u64; 1000];
        starved.each(
            "msgsnd",
            &[],
            || libc::msgsnd(queue, message.as_ptr().cast(), 6000, 0).into(),
            |result| {
                let so = count() == u64::from(result == 0);
                let got = libc::msgrcv(queue, room.as_mut_ptr().cast(), 7000, 0, libc::IPC_NOWAIT);
                so && (got == 6000) == (result == 0)
            },
        );
        libc::msgsnd(queue, message.as_ptr().cast(), 6000, 0);
        starved.each(
            "msgrcv",
            &[],
            || libc::msgrcv(queue, room.as_mut_ptr().cast(), 7000, 0, libc::IPC_NOWAIT) as c_long,
            |result| {
                let left = count();
                left == u64::from(result == -1)
                    && (result == -1 || libc::msgsnd(queue, message.as_ptr().cast(), 6000, 0) == 0)
            },
        );
        remove(queue.into());
    }
}

unsafe fn segments(starved: &Starved) {
    unsafe {
        let remove = |id: c_long| libc::shmctl(id as c_int, IPC_RMID, ptr::null_mut()) == 0;
        let key = 0x5eef;
        starved.each(
            "shmget",
            &[ENOSPC, ENFILE],
            || libc::shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0o600).into(),
            |result| {
                let there = libc::shmget(key, 0, 0);
                (there == -1) == (result == -1) && (result == -1 || remove(result))
            },
        );
        let segment = libc::shmget(IPC_PRIVATE, 5000, 0o600);
        starved.each(
            "shmat",
            &[ENFILE],
            || libc::shmat(segment, ptr::null(), 0) as c_long,
            |result| {
                let gone = result == -1 || libc::shmdt(result as *const _) == 0;
                let mut about: libc::shmid_ds = mem::zeroed();
                libc::shmctl(segment, libc::IPC_STAT, &mut about);
                gone && about.shm_nattch == 0
            },
        );
        remove(segment.into());
    }
}

unsafe fn queues(starved: &Starved) {
    unsafe {
        let name = path(c"queue");
        let open = |flags: c_int| libc::syscall(libc::SYS_mq_open, name, flags, 0o600, 0usize);
        starved.each(
            "mq_open",
            &[ENFILE, ENOSPC],
            || open(O_CREAT | O_EXCL | O_RDWR),
            |result| {
                let there = libc::syscall(libc::SYS_mq_unlink, name) == 0;
                close(result) && there == (result != -1)
            },
        );
        let queue = open(O_CREAT | O_RDWR);
        let (bytes, mut room) = ([1u8; 5000], [0u8; 8192]);
        starved.each(
            "mq_send",
            &[],
            || {
                libc::syscall(
                    libc::SYS_mq_timedsend,
                    queue,
                    bytes.as_ptr(),
                    bytes.len(),
                    0,
                    0usize,
                )
            },
            |result| {
                let now = [0usize; 2];
                let got = libc::syscall(
                    libc::SYS_mq_timedreceive,
                    queue,
                    room.as_mut_ptr(),
                    8192,
                    0usize,
                    &now,
                );
                (got == 5000) == (result == 0)
            },
        );
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGUSR1;
        starved.each(
            "mq_notify",
            &[],
            || libc::syscall(libc::SYS_mq_notify, queue, &event),
            |_| libc::syscall(libc::SYS_mq_notify, queue, 0usize) == 0,
        );
        close(queue);
        libc::syscall(libc::SYS_mq_unlink, name);
    }
}

unsafe fn keys(starved: &Starved) {
    const PROCESS: c_long = -2;
    unsafe {
        let control = |what: c_long, key: c_long, other: c_long| {
            libc::syscall(libc::SYS_keyctl, what, key, other, 0usize, 0usize)
        };
        let (unlink, search, update) = (9, 10, 2);
        // KEYCTL_GET_KEYRING_ID makes the keyring.
        control(0, PROCESS, 1);
        let (user, name) = (path(c"user"), path(c"key"));
        let find = || libc::syscall(libc::SYS_keyctl, search, PROCESS, user, name, 0);
        let add = |bytes: &[u8]| {
            libc::syscall(
                libc::SYS_add_key,
                user,
                name,
                bytes.as_ptr(),
                bytes.len(),
                PROCESS,
            )
        };
        starved.each(
            "add_key",
            &[EDQUOT, libc::ENFILE],
            || add(&[5; 300]),
            |result| {
                let there = find();
                there == result && (result == -1 || control(unlink, result, PROCESS) == 0)
            },
        );
        let key = add(&[5; 300]);
        let bytes = [6u8; 200];
        starved.each(
            "keyctl update",
            &[EDQUOT],
            || {
                libc::syscall(
                    libc::SYS_keyctl,
                    update,
                    key,
                    bytes.as_ptr(),
                    bytes.len(),
                    0usize,
                )
            },
            |_| find() == key,
        );
        control(unlink, key, PROCESS);
        // KEYCTL_JOIN_SESSION_KEYRING.
        starved.each("keyctl session", &[EDQUOT], || control(1, 0, 0), |_| true);
    }
}
