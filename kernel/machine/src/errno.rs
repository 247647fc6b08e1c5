//! Error numbers.

use core::fmt;
use linux_raw_sys::errno as raw;

/// An error, with Linux's number (1 to 4095).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Errno(pub u16);

/// The result of a kernel function that may fail.
pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    /// Internal: restart after a signal whose handler has SA_RESTART, or that has none; otherwise
    /// EINTR.
    pub const ERESTARTSYS: Errno = Errno(512);
    /// Internal: always restart.
    pub const ERESTARTNOINTR: Errno = Errno(513);
    /// Internal: restart if no handler ran, otherwise EINTR.
    pub const ERESTARTNOHAND: Errno = Errno(514);
    /// Internal: as ERESTARTNOHAND, but with restart_syscall(2), which knows the remaining time.
    pub const ERESTART_RESTARTBLOCK: Errno = Errno(516);

    /// The result of a system call with this error.
    pub const fn result(self) -> isize {
        -(self.0 as isize)
    }
}

macro_rules! errnos {
    ($($name:ident)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno(raw::$name as u16);)*
        }

        impl fmt::Debug for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Errno::$name => f.write_str(stringify!($name)),)*
                    Errno(number) => write!(f, "errno {number}"),
                }
            }
        }
    };
}

errnos! {
    E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR
    EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK
    EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ
    EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC
    EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE
    EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV
    ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR
    ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM ENOTRECOVERABLE ENOTSOCK ENOTTY ENOTUNIQ ENXIO EOPNOTSUPP
    EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE
    EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME
    ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EXDEV EXFULL
}
