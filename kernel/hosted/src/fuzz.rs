//! Fuzz targets for parsers of bytes that programs choose: each is a function of arbitrary bytes,
//! which must return and leave the kernel alive. Fuzzers and quick tests call them by
//! [`try_bytes`].

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use linux_raw_sys::general::*;
use linux_raw_sys::net::*;

use crate::image::{self, MEMORY};
use crate::{peek, put, reserve, sys, try_run};

/// The targets' names and functions.
pub const TARGETS: [(&str, fn(&[u8])); 9] = [
    ("addresses", addresses),
    ("control_messages", control_messages),
    ("netlink", netlink),
    ("filters", filters),
    ("elf", elf),
    ("cpio", cpio),
    ("mount_options", mount_options),
    ("proc_writes", proc_writes),
    ("ioctls", ioctls),
];

/// The most inputs for one process; its leftovers end with it.
const SHARE: usize = 256;

/// As in the kernel's own headers, from which the other constants come.
const SOCK_NONBLOCK: u32 = O_NONBLOCK;

type Input = (fn(&[u8]), Vec<u8>);

/// The process that tries inputs.
struct Worker {
    inputs: Sender<Input>,
    done: Receiver<()>,
    left: usize,
}

static WORKER: Mutex<Option<Worker>> = Mutex::new(None);

fn start() -> Worker {
    let ((inputs, take), (tell, done)) = (channel(), channel());
    let job = move || {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().expect("no panic with it");
        // The process may well exit, or sleep forever.
        _ = try_run(move || work(take, tell));
        // Dropping its channels wakes the caller that waits for the process.
        *SELF.lock().expect("no panic with it") = None;
    };
    thread::spawn(job);
    let left = SHARE;
    Worker { inputs, done, left }
}

/// The work with which the process continues when it has executed another program.
static SELF: Mutex<Option<(Receiver<Input>, Sender<()>)>> = Mutex::new(None);

fn work(inputs: Receiver<Input>, done: Sender<()>) {
    *SELF.lock().expect("no panic with it") = Some((inputs, done));
    go_on();
}

/// Does the remaining work.
fn go_on() {
    let next = || {
        let guard = SELF.lock().expect("no panic with it");
        guard.as_ref().and_then(|(inputs, _)| inputs.recv().ok())
    };
    while let Some((target, bytes)) = next() {
        target(&bytes);
        _ = sys!(close_range, 3, u32::MAX, 0);
        finished();
    }
}

fn finished() {
    let guard = SELF.lock().expect("no panic with it");
    guard.as_ref().map(|(_, done)| done.send(()));
}

/// Notes that an unknown program was executed: [`elf`] succeeded. False if no target did that.
pub(crate) fn executed() -> bool {
    if SELF.lock().expect("no panic with it").is_none() {
        return false;
    }
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    let rights = PROT_READ | PROT_WRITE;
    let mapped = sys!(mmap, MEMORY.start, MEMORY.len(), rights, flags, -1, 0);
    finished();
    if mapped.is_ok() {
        go_on();
    }
    true
}

/// Calls `target` in a process of the kernel, which may end because of it.
pub fn try_bytes(target: fn(&[u8]), bytes: &[u8]) {
    let mut worker = WORKER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut own = worker.take().unwrap_or_else(start);
    let given = own.inputs.send((target, bytes.to_vec()));
    own.left -= 1;
    // Otherwise it has ended, or ends now.
    if given.is_ok() && own.done.recv().is_ok() && own.left > 0 {
        *worker = Some(own);
    }
}

fn split(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes {
        [first, rest @ ..] => (*first as usize, rest),
        [] => (0, &[]),
    }
}

/// Mounts a new file system to work in; [`leave`] removes it.
fn enter() {
    _ = sys!(mkdirat, AT_FDCWD, "/tmp/inside", 0o777);
    _ = sys!(mount, "tmpfs", "/tmp/inside", "tmpfs", 0, "size=4m");
    _ = sys!(chdir, "/tmp/inside");
}

fn leave() {
    _ = sys!(chdir, "/");
    _ = sys!(umount2, "/tmp/inside", MNT_DETACH);
}

/// Addresses of sockets: bind, connect, sendto.
pub fn addresses(bytes: &[u8]) {
    const KINDS: [(u32, u32); 8] = [
        (AF_UNIX, SOCK_STREAM),
        (AF_UNIX, SOCK_DGRAM),
        (AF_UNIX, SOCK_SEQPACKET),
        (AF_INET, SOCK_STREAM),
        (AF_INET, SOCK_DGRAM),
        (AF_INET6, SOCK_STREAM),
        (AF_INET6, SOCK_DGRAM),
        (AF_NETLINK, SOCK_RAW),
    ];
    enter();
    let (which, bytes) = split(bytes);
    let (family, kind) = KINDS[which % KINDS.len()];
    if let Ok(fd) = sys!(socket, family, kind | SOCK_NONBLOCK, 0) {
        let (address, len) = (put(bytes), bytes.len());
        _ = sys!(bind, fd, address, len);
        let (room, size) = (reserve(128), put(&128u32.to_ne_bytes()));
        _ = sys!(getsockname, fd, room, size);
        _ = sys!(
            sendto,
            fd,
            "x",
            1,
            MSG_DONTWAIT | MSG_NOSIGNAL,
            address,
            len
        );
        _ = sys!(connect, fd, address, len);
        _ = sys!(listen, fd, 1);
        _ = sys!(getpeername, fd, room, size);
    }
    leave();
}

/// Control messages of sendmsg(2), and reading them with recvmsg(2).
pub fn control_messages(bytes: &[u8]) {
    let (which, bytes) = split(bytes);
    let pair = reserve(8);
    let kind = [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET][which % 3];
    let (from, to) = if which < 128 {
        _ = sys!(socketpair, AF_UNIX, kind | SOCK_NONBLOCK, 0, pair);
        (word(pair), word(pair + 4))
    } else {
        let family = if which < 192 { AF_INET } else { AF_INET6 };
        let fd = sys!(socket, family, SOCK_DGRAM | SOCK_NONBLOCK, 0).unwrap_or(0);
        let mut address = [0; 28];
        address[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        let len = if which < 192 { 16 } else { 28 };
        let address = put(&address);
        _ = sys!(bind, fd, address, len);
        _ = sys!(getsockname, fd, address, put(&28u32.to_ne_bytes()));
        _ = sys!(connect, fd, address, len);
        (fd, fd)
    };
    let one = put(&1u32.to_ne_bytes());
    for option in [SO_PASSCRED, SO_TIMESTAMP, SO_RXQ_OVFL] {
        _ = sys!(setsockopt, to, SOL_SOCKET, option, one, 4);
    }
    let part = put(&[put(b"data"), 4].map(usize::to_ne_bytes).concat());
    let message = |control: usize, len: usize| {
        put(&[0, 0, part, 1, control, len, 0]
            .map(usize::to_ne_bytes)
            .concat())
    };
    _ = sys!(
        sendmsg,
        from,
        message(put(bytes), bytes.len()),
        MSG_DONTWAIT | MSG_NOSIGNAL
    );
    _ = sys!(
        recvmsg,
        to,
        message(reserve(256), which.min(256)),
        MSG_DONTWAIT
    );
}

fn word(address: usize) -> usize {
    let bytes = peek(address, 4);
    u32::from_ne_bytes(bytes.try_into().expect("four bytes")) as usize
}

/// Requests to netlink, and its answers.
pub fn netlink(bytes: &[u8]) {
    const PROTOCOLS: [u32; 4] = [0, 4, 15, 16];
    let (which, bytes) = split(bytes);
    let protocol = PROTOCOLS[which % PROTOCOLS.len()];
    let Ok(fd) = sys!(socket, AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, protocol) else {
        return;
    };
    if sys!(sendto, fd, put(bytes), bytes.len(), 0, 0, 0).is_ok() {
        let room = reserve(4096);
        while sys!(recvfrom, fd, room, 4096, MSG_DONTWAIT, 0, 0).is_ok_and(|len| len > 0) {}
    }
}

/// Seccomp programs, all of whose returns allow the call.
pub fn filters(bytes: &[u8]) {
    const RET: u16 = 6;
    let (how, bytes) = split(bytes);
    let mut program = Vec::new();
    for instruction in bytes.chunks_exact(8) {
        let code = u16::from_ne_bytes([instruction[0], instruction[1]]);
        let (code, k) = if code & 7 == RET {
            (RET, 0x7fff_0000u32.to_ne_bytes())
        } else {
            (code, instruction[4..].try_into().expect("four bytes"))
        };
        program.extend(code.to_ne_bytes());
        program.extend(&instruction[2..4]);
        program.extend(k);
    }
    let count = program.len() / 8;
    let described = put(&[count, put(&program)].map(usize::to_ne_bytes).concat());
    _ = sys!(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    let flags = if how > 127 { how } else { 0 };
    if sys!(seccomp, SECCOMP_SET_MODE_FILTER, flags, described).is_ok() {
        _ = sys!(getppid);
    }
}

const PR_SET_NO_NEW_PRIVS: u32 = 38;
const SECCOMP_SET_MODE_FILTER: u32 = 1;

/// Executable files: the bytes modify a valid program.
pub fn elf(bytes: &[u8]) {
    let mut file = image::program();
    file.resize(file.len().max(bytes.len()), 0);
    for (byte, change) in file.iter_mut().zip(bytes) {
        *byte ^= change;
    }
    let Ok(fd) = sys!(
        openat,
        AT_FDCWD,
        "/tmp/program",
        O_WRONLY | O_CREAT | O_TRUNC,
        0o755
    ) else {
        return;
    };
    _ = sys!(write, fd, put(&file), file.len());
    _ = sys!(close, fd);
    let path = put(b"/tmp/program\0");
    let arguments = put(&[path, 0].map(usize::to_ne_bytes).concat());
    _ = sys!(execve, path, arguments, 0);
}

/// Cpio archives.
pub fn cpio(bytes: &[u8]) {
    enter();
    kernel::unpack(bytes);
    leave();
}

/// Mount options.
pub fn mount_options(bytes: &[u8]) {
    const KINDS: [&str; 6] = ["tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs"];
    let (which, bytes) = split(bytes);
    let options = put(&[bytes, &[0]].concat());
    _ = sys!(mkdirat, AT_FDCWD, "/tmp/mounted", 0o777);
    let kind = KINDS[which % KINDS.len()];
    if sys!(mount, "none", "/tmp/mounted", kind, 0, options).is_ok() {
        _ = sys!(mount, "none", "/tmp/mounted", "", MS_REMOUNT, options);
        let fd = sys!(openat, AT_FDCWD, "/proc/mounts", O_RDONLY, 0);
        _ = sys!(read, fd.unwrap_or(0), reserve(4096), 4096);
        _ = sys!(umount2, "/tmp/mounted", MNT_DETACH);
    }
}

/// Files of /proc that accept text.
const WRITABLE: [&str; 24] = [
    "self/comm",
    "self/oom_adj",
    "self/oom_score_adj",
    "self/coredump_filter",
    "self/clear_refs",
    "self/timerslack_ns",
    "self/setgroups",
    "self/loginuid",
    "self/attr/current",
    "self/autogroup",
    "sys/fs/lease-break-time",
    "sys/fs/inotify/max_queued_events",
    "sys/fs/protected_symlinks",
    "sys/fs/pipe-user-pages-soft",
    "sys/kernel/printk",
    "sys/kernel/hostname",
    "sys/kernel/sem",
    "sys/kernel/shmmax",
    "sys/kernel/msg_next_id",
    "sys/kernel/randomize_va_space",
    "sys/net/core/somaxconn",
    "sys/net/ipv4/ip_local_port_range",
    "sys/net/ipv4/ping_group_range",
    "sys/vm/overcommit_ratio",
];

/// Text for files of /proc.
pub fn proc_writes(bytes: &[u8]) {
    let (which, bytes) = split(bytes);
    let path = format!("/proc/{}", WRITABLE[which % WRITABLE.len()]);
    let Ok(fd) = sys!(openat, AT_FDCWD, &*path, O_RDWR, 0) else {
        return;
    };
    _ = sys!(write, fd, put(bytes), bytes.len());
    _ = sys!(pread64, fd, reserve(256), 256, 0);
}

/// Arguments of ioctl(2), on files of many kinds.
pub fn ioctls(bytes: &[u8]) {
    const PATHS: [&str; 6] = [
        "/dev/ptmx",
        "/dev/null",
        "/dev/tty",
        "/dev/kmsg",
        "/tmp",
        "/proc/self/ns/mnt",
    ];
    let (which, bytes) = split(bytes);
    let Some((request, block)) = bytes.split_first_chunk() else {
        return;
    };
    _ = sys!(mkdirat, AT_FDCWD, "/dev/pts", 0o755);
    _ = sys!(mknodat, AT_FDCWD, "/dev/ptmx", S_IFCHR | 0o666, 5 << 8 | 2);
    _ = sys!(mknodat, AT_FDCWD, "/dev/null", S_IFCHR | 0o666, 1 << 8 | 3);
    let pair = reserve(8);
    let opened = match which % 12 {
        at @ 0..6 => sys!(
            openat,
            AT_FDCWD,
            PATHS[at],
            O_RDWR | O_NONBLOCK | O_NOCTTY,
            0
        ),
        6 => sys!(socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0),
        7 => sys!(socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0),
        8 => sys!(pipe2, pair, O_NONBLOCK).map(|_| word(pair)),
        9 => sys!(eventfd2, 1, O_NONBLOCK),
        10 => sys!(inotify_init1, O_NONBLOCK),
        _ => sys!(timerfd_create, 1, O_NONBLOCK),
    };
    let Ok(fd) = opened else { return };
    // A letter is part of the request number: most inputs become requests of terminals or sockets.
    let request = u32::from_ne_bytes(*request);
    let request = match which >> 6 {
        0 => 0x5400 | request & 0xff,
        1 => 0x8900 | request & 0xff,
        _ => request,
    };
    let at = put(&[block, &[0; 256]].concat());
    _ = sys!(ioctl, fd, request, at);
}
