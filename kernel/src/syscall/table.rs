//! Dispatch: numbers from crate `abi`, handlers from here.

use super::layout::Native;
use super::*;
use crate::arch::{COMPAT_CALLS, Entry, Handlers, Syscall, SyscallTable, specific_calls};
use crate::errno::Errno;

/// The first number of the architecture-specific calls (`include/uapi/asm-generic/unistd.h`).
const SPECIFIC_FIRST: u16 = 244;
const SPECIFIC_END: u16 = 260;

extern "C" fn absent(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    Errno::ENOSYS.result()
}

macro_rules! shim {
    ($handler:path) => {{
        extern "C" fn shim(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
            $crate::syscall::invoke($handler, [a, b, c, d, e, f])
        }
        shim
    }};
}
pub(super) use shim;

/// Defines `fill`, which puts handlers into the tables by the numbers of their names among
/// `$calls`, from `$first` on.
macro_rules! dispatch {
    (
        $calls:path, $first:expr, $specific:expr;
        plain { $($name:ident => $handler:path,)* }
        whole_frame { $($whole:ident => $stubbed:path,)* }
    ) => {
        pub(super) const fn fill(tables: &mut $crate::syscall::table::Tables) {
            $({
                let handler = $crate::syscall::table::shim!($handler);
                let at = $first + abi::number_in($calls, stringify!($name));
                tables.set(at, handler, $crate::arch::Entry::new(handler));
            })*
            $({
                extern "C" fn shim(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
                    $crate::syscall::invoke($stubbed, [a, b, c, d, e, f])
                }
                let at = $first + abi::number_in($calls, stringify!($whole));
                tables.set(at, shim, machine::full_frame_stub!(shim));
            })*
        }

        /// Exactly the calls with handlers are whole or partial in `abi`.
        const _: () = {
            let mut handled = [false; 512];
            $(handled[abi::number_in($calls, stringify!($name))] = true;)*
            $(handled[abi::number_in($calls, stringify!($whole))] = true;)*
            let specific: core::ops::Range<u16> = $specific;
            let mut at = 0;
            while at < $calls.len() {
                let call = &$calls[at];
                let there = !matches!(call.status, abi::Status::Absent);
                let specific = call.number >= specific.start && call.number < specific.end;
                assert!(specific || there == handled[call.number as usize], "abi and the handlers disagree");
                at += 1;
            }
        };
    };
}
pub(super) use dispatch;

/// The functions to call for each number.
pub(super) struct Tables {
    handlers: Handlers,
    entries: SyscallTable,
}

impl Tables {
    /// Sets the handler of the call at index `at`.
    pub(super) const fn set(&mut self, at: usize, handler: Syscall, entry: Entry) {
        self.handlers[at] = handler;
        self.entries[at] = entry;
    }

    const fn filled() -> Self {
        let mut tables = Tables {
            handlers: [absent; _],
            entries: [Entry::new(absent); _],
        };
        fill(&mut tables);
        if COMPAT_CALLS {
            compat::fill(&mut tables);
        }
        let specific = specific_calls();
        let mut at = 0;
        while at < specific.len() {
            let (place, handler, entry) = specific[at];
            tables.set(place, handler, entry);
            at += 1;
        }
        tables
    }
}

const TABLES: Tables = Tables::filled();
/// The handlers themselves, by number, for callers that have already saved the whole frame.
pub static HANDLERS: Handlers = TABLES.handlers;
/// The functions that the entry path calls, by number.
pub static TABLE: SyscallTable = TABLES.entries;

dispatch! {
    abi::CALLS, 0, SPECIFIC_FIRST..SPECIFIC_END;
    plain {
        process_madvise => madvise::process_madvise::<Native>,
        cachestat => memory::cachestat,
        mseal => memory::mseal,
        io_setup => aio::io_setup::<Native>,
        io_destroy => aio::io_destroy,
        io_submit => aio::io_submit::<Native>,
        io_cancel => aio::io_cancel,
        io_getevents => aio::io_getevents::<Native>,
        io_pgetevents => aio::io_pgetevents::<Native>,
        getcwd => dir::getcwd,
        add_key => keyctl::add_key,
        request_key => keyctl::request_key,
        keyctl => keyctl::keyctl,
        eventfd2 => pipe::eventfd2,
        epoll_create1 => epoll::epoll_create1,
        epoll_ctl => epoll::epoll_ctl,
        epoll_pwait => epoll::epoll_pwait,
        epoll_pwait2 => epoll::epoll_pwait2::<Native>,
        dup => fd::dup,
        dup3 => fd::dup3,
        fcntl => fd::fcntl,
        inotify_init1 => inotify::inotify_init1,
        inotify_add_watch => inotify::inotify_add_watch,
        inotify_rm_watch => inotify::inotify_rm_watch,
        ioctl => fd::ioctl,
        flock => flock::flock,
        mknodat => dir::mknodat,
        mkdirat => dir::mkdirat,
        unlinkat => dir::unlinkat,
        symlinkat => dir::symlinkat,
        linkat => dir::linkat,
        renameat => dir::renameat,
        renameat2 => dir::renameat2,
        umount2 => mount::umount2,
        mount => mount::mount,
        acct => acct::acct,
        statfs => stat::statfs,
        fstatfs => stat::fstatfs,
        truncate => file::truncate,
        ftruncate => file::ftruncate,
        fallocate => file::fallocate,
        faccessat => stat::faccessat,
        faccessat2 => stat::faccessat2,
        chdir => dir::chdir,
        fchdir => dir::fchdir,
        chroot => dir::chroot,
        fchmod => stat::fchmod,
        fchmodat => stat::fchmodat,
        fchmodat2 => stat::fchmodat2,
        fchownat => stat::fchownat,
        fchown => stat::fchown,
        openat => file::openat,
        openat2 => file::openat2,
        close => file::close,
        close_range => file::close_range,
        pipe2 => pipe::pipe2,
        getdents64 => dir::getdents64,
        lseek => file::lseek,
        read => file::read,
        write => file::write,
        readv => file::readv::<Native>,
        writev => file::writev::<Native>,
        pread64 => file::pread64,
        pwrite64 => file::pwrite64,
        preadv => file::preadv::<Native>,
        pwritev => file::pwritev::<Native>,
        preadv2 => file::preadv2::<Native>,
        pwritev2 => file::pwritev2::<Native>,
        sendfile => splice::sendfile64,
        splice => splice::splice,
        tee => splice::tee,
        vmsplice => splice::vmsplice::<Native>,
        copy_file_range => splice::copy_file_range,
        pselect6 => poll::pselect6::<Native>,
        ppoll => poll::ppoll::<Native>,
        readlinkat => dir::readlinkat,
        newfstatat => stat::newfstatat,
        fstat => stat::fstat,
        statx => stat::statx,
        sync => file::sync,
        syncfs => file::syncfs,
        remap_file_pages => mmap::remap_file_pages,
        name_to_handle_at => file_handle::name_to_handle_at,
        open_by_handle_at => file_handle::open_by_handle_at,
        fsync => file::fsync,
        fdatasync => file::fsync,
        sync_file_range => file::sync_file_range,
        fadvise64 => file::fadvise64,
        readahead => file::readahead,
        timerfd_create => timerfd::timerfd_create,
        timerfd_settime => timerfd::timerfd_settime::<Native>,
        timerfd_gettime => timerfd::timerfd_gettime::<Native>,
        utimensat => stat::utimensat::<Native>,
        memfd_create => pipe::memfd_create,
        umask => dir::umask,
        signalfd4 => signalfd::signalfd4,
        setxattr => xattr::setxattr,
        lsetxattr => xattr::lsetxattr,
        fsetxattr => xattr::fsetxattr,
        getxattr => xattr::getxattr,
        lgetxattr => xattr::lgetxattr,
        fgetxattr => xattr::fgetxattr,
        listxattr => xattr::listxattr,
        llistxattr => xattr::llistxattr,
        flistxattr => xattr::flistxattr,
        removexattr => xattr::removexattr,
        lremovexattr => xattr::lremovexattr,
        fremovexattr => xattr::fremovexattr,

        socket => socket::socket,
        socketpair => socket::socketpair,
        bind => socket::bind,
        listen => socket::listen,
        accept => socket::accept,
        accept4 => socket::accept4,
        connect => socket::connect,
        getsockname => socket::getsockname,
        getpeername => socket::getpeername,
        setsockopt => socket::setsockopt,
        getsockopt => socket::getsockopt,
        shutdown => socket::shutdown,
        sendto => sendmsg::sendto,
        recvfrom => sendmsg::recvfrom,
        sendmsg => sendmsg::sendmsg::<Native>,
        recvmsg => sendmsg::recvmsg::<Native>,
        sendmmsg => sendmsg::sendmmsg::<Native>,
        recvmmsg => sendmsg::recvmmsg::<Native>,

        mmap => mmap::mmap,
        munmap => memory::munmap,
        mprotect => memory::mprotect,
        mremap => mremap::mremap,
        brk => mremap::brk,
        madvise => madvise::madvise,
        mincore => memory::mincore,
        msync => memory::msync,
        mlock => mlock::mlock,
        mlock2 => mlock::mlock2,
        munlock => mlock::munlock,
        mlockall => mlock::mlockall,
        munlockall => mlock::munlockall,

        getpid => process::getpid,
        gettid => process::gettid,
        getppid => process::getppid,
        exit => process::exit,
        exit_group => process::exit_group,
        set_tid_address => process::set_tid_address,
        unshare => process::unshare,
        setns => process::setns,
        setpgid => process::setpgid,
        getpgid => process::getpgid,
        getsid => process::getsid,
        setsid => process::setsid,
        prctl => prctl::prctl,
        personality => prctl::personality,
        wait4 => wait::wait4::<Native>,
        waitid => wait::waitid::<Native>,
        getrusage => wait::getrusage::<Native>,
        times => wait::times::<Native>,

        mq_open => mq::mq_open::<Native>,
        mq_unlink => mq::mq_unlink,
        mq_timedsend => mq::mq_timedsend::<Native>,
        mq_timedreceive => mq::mq_timedreceive::<Native>,
        mq_notify => mq::mq_notify::<Native>,
        mq_getsetattr => mq::mq_getsetattr::<Native>,
        seccomp => seccomp::seccomp,
        ptrace => ptrace::ptrace::<Native>,
        process_vm_readv => ptrace::process_vm_readv::<Native>,
        process_vm_writev => ptrace::process_vm_writev::<Native>,
        shmget => ipc::shmget,
        shmat => ipc::shmat::<Native>,
        shmdt => ipc::shmdt,
        shmctl => ipc::shmctl::<Native>,
        msgget => ipc::msgget,
        msgsnd => ipc::msgsnd::<Native>,
        msgrcv => ipc::msgrcv::<Native>,
        msgctl => ipc::msgctl::<Native>,
        semget => ipc::semget,
        semop => ipc::semop,
        semtimedop => ipc::semtimedop::<Native>,
        semctl => ipc::semctl::<Native>,

        getuid => identity::getuid,
        geteuid => identity::geteuid,
        getgid => identity::getgid,
        getegid => identity::getegid,
        getresuid => identity::getresuid,
        getresgid => identity::getresgid,
        setuid => identity::setuid,
        setgid => identity::setgid,
        setreuid => identity::setreuid,
        setregid => identity::setregid,
        setresuid => identity::setresuid,
        setresgid => identity::setresgid,
        setfsuid => identity::setfsuid,
        setfsgid => identity::setfsgid,
        getgroups => identity::getgroups,
        setgroups => identity::setgroups,
        capget => capability::capget,
        capset => capability::capset,

        futex => futex::futex::<Native>,
        futex_wake => futex::futex_wake,
        futex_wait => futex::futex_wait::<Native>,
        futex_requeue => futex::futex_requeue,
        futex_waitv => futex::futex_waitv::<Native>,
        set_robust_list => futex::set_robust_list::<Native>,
        get_robust_list => futex::get_robust_list::<Native>,

        pidfd_open => pidfd::pidfd_open,
        pidfd_send_signal => pidfd::pidfd_send_signal::<Native>,
        pidfd_getfd => pidfd::pidfd_getfd,

        kill => signal::kill,
        tkill => signal::tkill,
        tgkill => signal::tgkill,
        rt_sigqueueinfo => signal::rt_sigqueueinfo::<Native>,
        rt_tgsigqueueinfo => signal::rt_tgsigqueueinfo::<Native>,
        rt_sigaction => signal::rt_sigaction::<Native>,
        rt_sigprocmask => signal::rt_sigprocmask,
        rt_sigpending => signal::rt_sigpending,
        rt_sigsuspend => signal::rt_sigsuspend,
        rt_sigtimedwait => signal::rt_sigtimedwait::<Native>,
        restart_syscall => time::restart_syscall,

        nanosleep => time::nanosleep::<Native>,
        clock_nanosleep => time::clock_nanosleep::<Native>,
        clock_gettime => time::clock_gettime::<Native>,
        clock_getres => time::clock_getres::<Native>,
        clock_settime => time::clock_settime::<Native>,
        gettimeofday => time::gettimeofday::<Native>,
        settimeofday => time::settimeofday::<Native>,
        adjtimex => adjtimex::adjtimex,
        clock_adjtime => adjtimex::clock_adjtime,
        setitimer => itimer::setitimer::<Native>,
        getitimer => itimer::getitimer::<Native>,
        timer_create => itimer::timer_create::<Native>,
        timer_settime => itimer::timer_settime::<Native>,
        timer_gettime => itimer::timer_gettime::<Native>,
        timer_getoverrun => itimer::timer_getoverrun,
        timer_delete => itimer::timer_delete,

        sched_setattr => priority::sched_setattr,
        sched_getattr => priority::sched_getattr,
        ioprio_set => priority::ioprio_set,
        ioprio_get => priority::ioprio_get,
        kcmp => kcmp::kcmp,
        sched_yield => sched::sched_yield,
        sched_setaffinity => sched::sched_setaffinity,
        sched_getaffinity => sched::sched_getaffinity::<Native>,
        sched_setscheduler => sched::sched_setscheduler,
        sched_getscheduler => sched::sched_getscheduler,
        sched_setparam => sched::sched_setparam,
        sched_getparam => sched::sched_getparam,
        sched_get_priority_max => sched::sched_get_priority_max,
        sched_get_priority_min => sched::sched_get_priority_min,
        sched_rr_get_interval => sched::sched_rr_get_interval::<Native>,
        getpriority => sched::getpriority,
        setpriority => sched::setpriority,
        getcpu => sched::getcpu,
        membarrier => rseq::membarrier,
        rseq => rseq::rseq,

        prlimit64 => limits::prlimit64,
        getrlimit => limits::getrlimit,
        setrlimit => limits::setrlimit,
        uname => system::uname,
        sethostname => system::sethostname,
        setdomainname => system::setdomainname,
        sysinfo => system::sysinfo,
        getrandom => system::getrandom,
        reboot => system::reboot,
        syslog => syslog::syslog,
    }
    whole_frame {
        clone => process::clone,
        clone3 => process::clone3,
        execve => exec::execve::<Native>,
        execveat => exec::execveat::<Native>,
        rt_sigreturn => signal::rt_sigreturn::<Native>,
        sigaltstack => signal::sigaltstack::<Native>,
    }
}
