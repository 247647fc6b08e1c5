//! Edge cases of system calls: errors, partial transfers, signals, mappings.
//!
//! Each part prints lines that are the same on any kernel that behaves like Linux. The tests
//! compare them with Linux's.

#[cfg(target_arch = "aarch64")]
mod absent;
mod accepted;
mod accounting;
#[cfg(target_arch = "riscv64")]
mod addresses;
mod adjtimex;
mod advice;
mod age;
mod aio;
mod answers;
mod arguments;
mod attributes;
mod awaited;
mod bands;
mod beside;
mod bounds;
mod broadcast;
mod busy;
mod capabilities;
mod choices;
mod circles;
mod connecting;
mod controls;
#[cfg(target_arch = "aarch64")]
mod copies;
mod cores;
mod corked;
mod counts;
mod cut;
mod damaged;
mod devpts;
mod disk;
mod doing;
mod droppable;
mod edges;
mod ending;
mod erofs;
mod ext4;
mod ext4_writes;
mod fail_nth;
mod families;
mod fatal;
mod fault;
mod files;
mod frames;
mod futex;
mod gap;
mod given;
#[cfg(target_arch = "aarch64")]
mod guard;
mod handlers;
mod handover;
mod held;
mod hostile;
mod huge;
mod identity;
#[cfg(target_arch = "aarch64")]
mod idreg;
#[cfg(target_arch = "aarch64")]
mod idregs;
mod inet;
mod inherit;
mod ipc;
mod jobs;
mod keys;
mod left;
mod limits;
mod listening;
mod locks;
mod log;
mod low;
mod memory;
mod mlock;
mod modes;
mod mount_options;
mod mounted;
#[cfg(target_arch = "aarch64")]
mod mte;
mod net_tables;
mod netlink;
mod numbers;
mod oom;
mod options;
mod overlay;
mod packet;
#[cfg(target_arch = "aarch64")]
mod pauth;
mod pending;
mod pidfd;
mod pipes;
#[cfg(target_arch = "aarch64")]
mod points;
mod privileges;
#[cfg(target_arch = "riscv64")]
mod probe;
mod processes;
mod protect;
mod pseudo;
mod ptrace;
mod raw;
mod realtime;
mod received;
mod records;
mod refused;
mod reserved;
mod rights;
mod rseq;
mod runs;
mod same_cpus;
mod sched;
mod sealed;
mod seccomp;
mod sent_headers;
mod share;
mod sigchld;
mod signals;
#[cfg(target_arch = "aarch64")]
mod sigreturn;
mod sockets;
mod splice;
mod stalled;
mod stamps;
mod store_bypass;
#[cfg(target_arch = "aarch64")]
mod sve;
#[cfg(target_arch = "aarch64")]
mod sve_default;
mod sysctl;
#[cfg(target_arch = "aarch64")]
mod tags;
mod taps;
mod tcp_memory;
mod terminals;
mod threads;
mod time;
mod time_wait;
mod timers;
mod times;
mod tree;
mod udp_lite;
mod undisturbed;
mod unix;
mod usage;
#[cfg(target_arch = "riscv64")]
mod vector;
mod watch;

use std::ffi::CStr;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("adjtimex") => adjtimex::run(),
        Some("leap") => adjtimex::run_leaps(),
        Some("age") => age::run(),
        Some("low") if std::env::args().nth(2).is_some() => low::after_exec(),
        Some("low") => low::run(),
        Some("memory") => memory::run(),
        Some("mlock") => mlock::run(),
        Some("oom") => oom::run(),
        Some("oom-waiting") => oom::run_waiting(),
        Some("numbers") => numbers::run(),
        Some("options") => options::run(),
        Some("overlay") => overlay::run(),
        Some("controls") => controls::run(),
        Some("corked") => corked::run(),
        Some("counts") => counts::run(),
        Some("families") => families::run(),
        Some("fatal") => fatal::run(),
        Some("fault") => fault::run(),
        Some("share") => share::run(),
        Some("signals") => signals::run(),
        #[cfg(target_arch = "riscv64")]
        Some("probe") => probe::run(),
        Some("privileges") if std::env::args().nth(2).is_some() => privileges::after_exec(),
        Some("privileges") => privileges::run(),
        Some("processes") => processes::run(),
        Some("protect") => protect::run(),
        Some("disk") => disk::run(),
        Some("erofs") => erofs::run(),
        Some("ext4") => ext4::run(),
        Some("fail-nth") => fail_nth::run(std::env::args().nth(2).as_deref()),
        Some("files") => files::run(),
        Some("frames") => frames::run(),
        Some("frames-overflow") => frames::overflow(),
        Some("futex") => futex::run(),
        Some("gap") => gap::run(),
        Some("given") if std::env::args().nth(2).is_some() => given::after_exec(),
        Some("given") => given::run(),
        Some("huge") => huge::run(),
        Some("identity") if std::env::args().nth(2).is_some() => identity::after_exec(),
        Some("identity") => identity::run(),
        Some("rseq") => rseq::run(),
        Some("runs") => runs::run(),
        Some("inherit") => inherit::run(),
        Some("ipc") => ipc::run(),
        Some("ptrace") => ptrace::run(),
        Some("seccomp") => seccomp::run(),
        Some("sealed") => sealed::run(),
        Some("sent-headers") => sent_headers::run(),
        Some("packet") => packet::run(),
        Some("netlink") => netlink::run(),
        Some("pending") => pending::run(),
        Some("sigchld") => sigchld::run(),
        Some("pidfd") => pidfd::run(),
        Some("pipes") => pipes::run(),
        Some("pseudo") => pseudo::run(),
        #[cfg(target_arch = "aarch64")]
        Some("points") => points::run(),
        Some("time") => time::run(),
        Some("time_wait") if std::env::args().nth(2).is_some() => time_wait::many(),
        Some("time_wait") => time_wait::run(),
        Some("rights") => rights::run(),
        Some("limits") => limits::run(),
        Some("locks") => locks::run(),
        Some("log") => log::run(),
        Some("received") => received::run(),
        Some("records") => records::run(),
        Some("refused") => refused::run(),
        Some("times") => times::run(),
        Some("splice") => splice::run(),
        Some("stalled") => stalled::run(),
        Some("stamps") => stamps::run(),
        Some("udp-lite") => udp_lite::run(),
        Some("store-bypass") => store_bypass::run(),
        Some("store-bypass-told") => store_bypass::told(),
        Some("bounds") => bounds::run(),
        Some("broadcast") => broadcast::run(),
        Some("busy") => busy::run(),
        Some("choices") => choices::run(),
        Some("circles") => circles::run(),
        Some("connecting") => connecting::run(),
        Some("cores") => cores::run(),
        Some("cut") => cut::run(),
        Some("damaged") => damaged::run(number(2), &std::env::args().nth(3).unwrap_or_default()),
        Some("devpts") => devpts::run(),
        Some("doing") if std::env::args().nth(2).is_some() => doing::run_stopped(),
        Some("doing") => doing::run(),
        Some("droppable") => droppable::run(),
        Some("edges") => edges::run(),
        Some("accounting") => accounting::run(),
        #[cfg(target_arch = "aarch64")]
        Some("tags") if std::env::args().nth(2).is_some() => tags::after_exec(),
        #[cfg(target_arch = "aarch64")]
        Some("tags") => tags::run(),
        Some("wait") => busy::wait(),
        Some("exec") => exec(),
        #[cfg(target_arch = "aarch64")]
        Some("idreg") => idreg::run(),
        #[cfg(target_arch = "aarch64")]
        Some("absent") => absent::run(),
        #[cfg(target_arch = "aarch64")]
        Some("pauth") => pauth::run(),
        #[cfg(target_arch = "aarch64")]
        Some("pauth-exec") => pauth::after_exec(),
        #[cfg(target_arch = "aarch64")]
        Some("idregs") => idregs::run(),
        #[cfg(target_arch = "aarch64")]
        Some("guard") => guard::run(),
        #[cfg(target_arch = "aarch64")]
        Some("mte") => mte::run(),
        #[cfg(target_arch = "aarch64")]
        Some("mte-after-exec") => mte::after_exec(),
        #[cfg(target_arch = "aarch64")]
        Some("copies") => copies::run(),
        #[cfg(target_arch = "aarch64")]
        Some("sigreturn") => sigreturn::run(),
        #[cfg(target_arch = "aarch64")]
        Some("sve") => sve::run(),
        #[cfg(target_arch = "aarch64")]
        Some("sve-exec") => sve::after_exec(),
        #[cfg(target_arch = "riscv64")]
        Some("vector") => vector::run(),
        #[cfg(target_arch = "riscv64")]
        Some("vector-exec") => vector::after_exec(),
        Some("left") => left::run(),
        #[cfg(target_arch = "aarch64")]
        Some("sve-default") if std::env::args().nth(2).is_some() => sve_default::after_exec(),
        #[cfg(target_arch = "aarch64")]
        Some("sve-default") => sve_default::run(),
        Some("sysctl") => sysctl::run(),
        Some("taps") => taps::run(),
        Some("tcp-memory") => tcp_memory::run(),
        Some("tree") => tree::run(),
        Some("usage") => usage::run(),
        Some("realtime") => realtime::run(),
        Some("watch") => watch::run(),
        Some("unix") => unix::run(),
        Some("inet") => inet::run(),
        Some("raw") => raw::run(),
        #[cfg(target_arch = "riscv64")]
        Some("addresses") => addresses::run(),
        Some("sockets") => sockets::run(),
        Some("net-tables") => net_tables::run(),
        Some("listening") => listening::run(),
        Some("mount-options") => mount_options::run(),
        Some("accepted") => accepted::run(),
        Some("awaited") => awaited::run(),
        Some("handover") => handover::run(),
        Some("bands") => bands::run(),
        Some("beside") => beside::run(),
        Some("modes") if std::env::args().nth(2).is_some() => modes::after_exec(),
        Some("modes") => modes::run(),
        Some("mounted") => mounted::run(),
        Some("threads") => threads::run(),
        Some("places") => accepted::places(&std::env::args().nth(2).unwrap_or_default()),
        Some("advice") => advice::run(),
        Some("aio") => aio::run(),
        Some("answers") => answers::run(),
        Some("arguments") => arguments::run(),
        Some("capabilities") => capabilities::run(),
        Some("file-capabilities") => capabilities::tell_capabilities(),
        Some("attributes") => attributes::run(),
        Some("handlers") => handlers::run(),
        Some("jobs") => jobs::run(),
        Some("ending") => ending::run(),
        Some("nothing") => (),
        Some("reserved") => reserved::run(),
        Some("tracers") => ptrace::tracers::run(),
        Some("same-cpus") => same_cpus::run(),
        Some("sched") => sched::run(),
        Some("terminals") => terminals::run(),
        Some("timers") => timers::run(),
        Some("expiries") => timers::queued::run(),
        Some("keys") => keys::run(),
        Some("hostile") => hostile::run(std::env::args().nth(2).as_deref()),
        _ => {
            eprintln!("usage: abi PART");
            std::process::exit(2);
        }
    }
}

/// An argument as a number, 0 if there is none.
fn number(at: usize) -> u64 {
    let argument = std::env::args().nth(at);
    argument.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Prints why the named programs cannot be executed.
fn exec() {
    for path in std::env::args().skip(2) {
        let path = std::ffi::CString::new(path).expect("an argument has no zero");
        let none = [std::ptr::null()];
        // SAFETY: both arrays end with a null pointer.
        let result = unsafe { libc::execve(path.as_ptr(), none.as_ptr(), none.as_ptr()) };
        tell(path.to_str().unwrap_or_default(), result);
    }
}

/// Prints the result of a call: its value, or the error's name.
fn tell(what: &str, result: impl Into<i64>) {
    match result.into() {
        -1 => println!("{what}: {}", error()),
        value => println!("{what}: {value}"),
    }
}

/// Prints whether a call succeeded; for values that differ from run to run.
fn tell_ok(what: &str, ok: bool) {
    if ok {
        println!("{what}: ok")
    } else {
        println!("{what}: {}", error())
    }
}

/// The name of the last error.
fn error() -> &'static str {
    match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::E2BIG => "E2BIG",
        libc::ENOEXEC => "ENOEXEC",
        libc::EBADF => "EBADF",
        libc::ECHILD => "ECHILD",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::ENOTTY => "ENOTTY",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::ESPIPE => "ESPIPE",
        libc::EROFS => "EROFS",
        libc::EPIPE => "EPIPE",
        libc::ERANGE => "ERANGE",
        libc::ENAMETOOLONG => "ENAMETOOLONG",
        libc::ENOSYS => "ENOSYS",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::ELOOP => "ELOOP",
        libc::EOVERFLOW => "EOVERFLOW",
        libc::ENOTSUP => "EOPNOTSUPP",
        libc::EDEADLK => "EDEADLK",
        libc::ENOMSG => "ENOMSG",
        libc::EIDRM => "EIDRM",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EBADMSG => "EBADMSG",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ENOTSOCK => "ENOTSOCK",
        libc::EDESTADDRREQ => "EDESTADDRREQ",
        libc::EPROTOTYPE => "EPROTOTYPE",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ECONNRESET => "ECONNRESET",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ENOBUFS => "ENOBUFS",
        libc::EISCONN => "EISCONN",
        libc::ENOTCONN => "ENOTCONN",
        libc::EALREADY => "EALREADY",
        libc::EINPROGRESS => "EINPROGRESS",
        libc::EDOM => "EDOM",
        libc::ETXTBSY => "ETXTBSY",
        libc::ESTALE => "ESTALE",
        libc::ENOKEY => "ENOKEY",
        libc::EKEYREVOKED => "EKEYREVOKED",
        libc::EKEYEXPIRED => "EKEYEXPIRED",
        libc::EDQUOT => "EDQUOT",
        libc::ECANCELED => "ECANCELED",
        libc::ETOOMANYREFS => "ETOOMANYREFS",
        _ => "another error",
    }
}

/// Starts a child that waits until it is killed.
///
/// # Safety
/// As for fork(2): the child does not have the caller's other threads.
unsafe fn sleeper() -> i32 {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        child
    }
}

/// Runs `work` in a child; returns its wait status.
fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: the program has one thread here, so the child may continue as the parent would.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    }
}

/// Prints how a child ended.
fn tell_end(what: &str, status: i32) {
    if libc::WIFSIGNALED(status) {
        println!("{what}: signal {}", libc::WTERMSIG(status));
    } else {
        println!("{what}: status {}", libc::WEXITSTATUS(status));
    }
}

/// Reads a byte, whatever happens.
///
/// # Safety
///
/// The byte is mapped, or a fault is expected.
unsafe fn touch(address: *const u8) {
    // SAFETY: as the caller guarantees.
    let _ = unsafe { address.read_volatile() };
}

/// The KiB of the mapping at `start` that smaps counts as `kind`.
fn smaps(start: *mut u8, kind: &str) -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let head = format!("{:08x}-", start as usize);
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    let line = lines.find_map(|line| line.strip_prefix(kind));
    line.unwrap_or("nowhere").trim().to_owned()
}

/// A path as a pointer for system calls.
fn path(text: &'static CStr) -> *const libc::c_char {
    text.as_ptr()
}
