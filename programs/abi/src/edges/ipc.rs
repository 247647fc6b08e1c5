//! System V and POSIX IPC at their exact limits, and the owners of their objects.

use std::{mem, ptr};

use libc::{IPC_CREAT, IPC_NOWAIT, IPC_PRIVATE, IPC_RMID, IPC_SET, IPC_STAT, c_int};

use super::{USER, become_user};
use crate::{in_child, path, tell, tell_end, tell_ok};

/// A queue holds as many bytes as its limit allows, and no more messages than that.
pub unsafe fn messages() {
    unsafe {
        let queue = libc::msgget(IPC_PRIVATE, IPC_CREAT | 0o600);
        let mut status: libc::msqid_ds = mem::zeroed();
        libc::msgctl(queue, IPC_STAT, &mut status);
        status.msg_qbytes = 16;
        tell("16 bytes", libc::msgctl(queue, IPC_SET, &mut status));
        let send = |len: usize| {
            let message = [1u64; 4];
            libc::msgsnd(queue, message.as_ptr().cast(), len, IPC_NOWAIT)
        };
        tell("8", send(8));
        tell("8 more", send(8));
        tell("one more", send(1));
        tell("none more", send(0));
        let mut room = [0u64; 4];
        while libc::msgrcv(queue, room.as_mut_ptr().cast(), 24, 0, IPC_NOWAIT) >= 0 {}
        let sent = (0..40).take_while(|_| send(0) == 0).count();
        println!("empty messages: {sent}");
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
    }
}

/// shmget compares with the exact size of a segment; the creator of an object keeps the owner's
/// rights.
pub unsafe fn segments_and_rights() {
    unsafe {
        let key = 0x5717e;
        let segment = libc::shmget(key, 5000, IPC_CREAT | 0o600);
        for size in [0, 4999, 5000, 5001, 8192] {
            tell_ok(&format!("of {size}"), libc::shmget(key, size, 0) == segment);
        }
        libc::shmctl(segment, IPC_RMID, ptr::null_mut());

        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        in_child(|| {
            become_user(USER);
            let queue = libc::msgget(IPC_PRIVATE, 0o600);
            libc::write(ends[1], (&raw const queue).cast(), 4);
        });
        let mut queue: c_int = 0;
        libc::read(ends[0], (&raw mut queue).cast(), 4);
        let mut status: libc::msqid_ds = mem::zeroed();
        libc::msgctl(queue, IPC_STAT, &mut status);
        status.msg_perm.uid = USER + 1;
        tell("given away", libc::msgctl(queue, IPC_SET, &mut status));
        for (who, id) in [("creator", USER), ("owner", USER + 1), ("other", USER + 2)] {
            let ended = in_child(|| {
                become_user(id);
                let mut status: libc::msqid_ds = mem::zeroed();
                tell(who, libc::msgctl(queue, IPC_STAT, &mut status));
            });
            tell_end(who, ended);
        }
        libc::msgctl(queue, IPC_RMID, ptr::null_mut());
    }
}

/// Sizes and modes that a POSIX message queue refuses.
pub unsafe fn queues() {
    unsafe {
        let name = path(c"/edges");
        let mut attributes: libc::mq_attr = mem::zeroed();
        (attributes.mq_maxmsg, attributes.mq_msgsize) = (2, 8);
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_NONBLOCK;
        let queue = libc::mq_open(name, flags, 0o400, &raw mut attributes);
        let send = |what: &str, len: usize| {
            tell(what, libc::mq_send(queue, [0; 9].as_ptr(), len, 0));
        };
        send("8 bytes", 8);
        send("9 bytes", 9);
        send("the second", 1);
        send("the third", 1);
        libc::fchown(queue, USER, USER);
        let ended = in_child(|| {
            become_user(USER);
            let open = |what, flags| tell_ok(what, libc::mq_open(name, flags) >= 0);
            open("to read", libc::O_RDONLY);
            open("to write", libc::O_WRONLY);
            open("for both", libc::O_RDWR);
        });
        tell_end("its owner", ended);
        libc::mq_unlink(name);
    }
}
