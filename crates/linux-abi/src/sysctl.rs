//! The numbers in `/proc/sys` that can be changed, and the parsing of a write to one, as in Linux's
//! `proc_dointvec_minmax`, `proc_douintvec_minmax` and `proc_doulongvec_minmax`.

use crate::same;

/// The type of the numbers in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `int`
    Int,
    /// `unsigned int`
    Unsigned,
    /// `unsigned long`
    Long,
}

/// A file in `/proc/sys`.
#[derive(Clone, Copy, Debug)]
pub struct Sysctl {
    /// Its path in `/proc/sys`.
    pub path: &'static str,
    /// The type of its numbers.
    pub form: Form,
    /// The count of its numbers.
    pub count: usize,
    /// The minimum.
    pub least: i128,
    /// The maximum.
    pub most: i128,
    /// Its permissions.
    pub mode: u32,
}

const INT: i128 = i32::MAX as i128;
const LONG: i128 = i64::MAX as i128;
const ANY_LONG: i128 = u64::MAX as i128;

const fn one(path: &'static str, form: Form, least: i128, most: i128) -> Sysctl {
    Sysctl {
        path,
        form,
        count: 1,
        least,
        most,
        mode: 0o644,
    }
}

use Form::{Int, Long, Unsigned};

/// All files that can be written.
pub const SYSCTLS: &[Sysctl] = &[
    one("abi/cp15_barrier", Int, 0, 2),
    one("abi/setend", Int, 0, 2),
    any_int("abi/sve_default_vector_length", 1),
    one("abi/swp", Int, 0, 1),
    one("abi/tagged_addr_disabled", Int, 0, 1),
    one("fs/epoll/max_user_watches", Long, 0, LONG),
    one("fs/file-max", Long, 0, LONG),
    one("fs/inotify/max_queued_events", Int, 0, INT),
    one("fs/inotify/max_user_instances", Long, 0, INT),
    one("fs/inotify/max_user_watches", Long, 0, INT),
    one("fs/lease-break-time", Int, 0, INT),
    one("fs/mqueue/msg_default", Int, 1, 65536),
    one("fs/mqueue/msg_max", Int, 1, 65536),
    one("fs/mqueue/msgsize_default", Int, 128, 16 << 20),
    one("fs/mqueue/msgsize_max", Int, 128, 16 << 20),
    one("fs/mqueue/queues_max", Int, 0, INT),
    one("fs/nr_open", Int, 64, (1 << 31) - 64),
    one("fs/pipe-max-size", Unsigned, 0, 1 << 31),
    one("fs/pipe-user-pages-hard", Long, 0, ANY_LONG),
    one("fs/pipe-user-pages-soft", Long, 0, ANY_LONG),
    one("fs/protected_fifos", Int, 0, 2),
    one("fs/protected_hardlinks", Int, 0, 1),
    one("fs/protected_regular", Int, 0, 2),
    one("fs/protected_symlinks", Int, 0, 1),
    one("fs/suid_dumpable", Int, 0, 2),
    any_int("kernel/acct", 3),
    any_int("kernel/core_uses_pid", 1),
    one("kernel/dmesg_restrict", Int, 0, 1),
    one("kernel/hung_task_timeout_secs", Long, 0, LONG / 250),
    one("kernel/hung_task_warnings", Int, -1, INT),
    checkpoint("kernel/msg_next_id"),
    one("kernel/msgmax", Int, 0, INT),
    one("kernel/msgmnb", Int, 0, INT),
    one("kernel/msgmni", Int, 0, 1 << 15),
    one("kernel/pid_max", Int, 301, 1 << 22),
    Sysctl {
        count: 4,
        ..one("kernel/printk", Int, 0, INT)
    },
    one("kernel/randomize_va_space", Int, 0, INT),
    any_int("kernel/sched_rr_timeslice_ms", 1),
    any_int("kernel/sem", 4),
    checkpoint("kernel/sem_next_id"),
    checkpoint("kernel/shm_next_id"),
    one("kernel/shmall", Long, 0, ANY_LONG),
    one("kernel/shmmax", Long, 0, ANY_LONG),
    one("kernel/shmmni", Int, 0, 1 << 15),
    one("kernel/softlockup_panic", Int, 0, 1),
    one("kernel/threads-max", Int, 1, 0x3fff_ffff),
    one("kernel/watchdog", Int, 0, 1),
    one("kernel/watchdog_thresh", Int, 0, 60),
    one("net/core/somaxconn", Int, 0, INT),
    Sysctl {
        count: 2,
        ..one("net/ipv4/ip_local_port_range", Int, 1, 65535)
    },
    one("net/ipv4/ip_unprivileged_port_start", Int, 0, 65535),
    Sysctl {
        count: 2,
        ..one("net/ipv4/ping_group_range", Long, 0, u32::MAX as i128 - 1)
    },
    one("net/ipv4/tcp_fin_timeout", Int, 0, INT),
    one("net/ipv4/tcp_max_orphans", Int, 0, INT),
    one("net/ipv4/tcp_max_tw_buckets", Int, 0, INT),
    Sysctl {
        count: 3,
        ..one("net/ipv4/tcp_mem", Long, 0, ANY_LONG)
    },
    one("net/ipv4/tcp_tw_reuse", Int, 0, 2),
    Sysctl {
        count: 3,
        ..one("net/ipv4/udp_mem", Long, 0, ANY_LONG)
    },
    one("net/unix/max_dgram_qlen", Int, 0, INT),
    one("vm/admin_reserve_kbytes", Long, 0, ANY_LONG),
    one("vm/dirty_background_ratio", Int, 0, 100),
    one("vm/dirty_expire_centisecs", Int, 0, INT),
    one("vm/dirty_ratio", Int, 0, 100),
    one("vm/dirty_writeback_centisecs", Int, 0, INT),
    Sysctl {
        mode: 0o200,
        ..one("vm/drop_caches", Int, 1, 4)
    },
    one("vm/max_map_count", Int, 0, INT),
    one("vm/min_free_kbytes", Int, 0, INT),
    one("vm/mmap_min_addr", Long, 0, ANY_LONG),
    one("vm/overcommit_kbytes", Long, 0, ANY_LONG),
    one("vm/overcommit_memory", Int, 0, 2),
    one("vm/overcommit_ratio", Int, 0, INT),
    one("vm/user_reserve_kbytes", Long, 0, ANY_LONG),
];

/// A file of `count` numbers with any value.
const fn any_int(path: &'static str, count: usize) -> Sysctl {
    Sysctl {
        count,
        ..one(path, Int, i32::MIN as i128, INT)
    }
}

/// A file that a thread with CAP_CHECKPOINT_RESTORE may write, whatever the permissions.
const fn checkpoint(path: &'static str) -> Sysctl {
    Sysctl {
        mode: 0o444,
        ..one(path, Int, 0, INT)
    }
}

/// The file at a path in `/proc/sys`.
///
/// # Panics
/// If there is none; at compile time where the kernel's tree is made.
pub const fn sysctl(path: &str) -> &'static Sysctl {
    let mut at = 0;
    while at < SYSCTLS.len() {
        if same(SYSCTLS[at].path.as_bytes(), path.as_bytes()) {
            return &SYSCTLS[at];
        }
        at += 1;
    }
    panic!("no such setting")
}

/// The bytes are not a number that the file accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid;

/// The maximum length of a number, with its sign (Linux's TMPBUFLEN).
const LONGEST: usize = 20;

impl Sysctl {
    /// Calls `set` with the index and the value of each number in `bytes`; returns the length of
    /// the numbers and of the white space after them. Bytes after the last number of the file are
    /// ignored.
    ///
    /// # Errors
    /// `Invalid`, or the error of `set`; the numbers before it were set.
    pub fn write<E: From<Invalid>>(
        &self,
        bytes: &[u8],
        mut set: impl FnMut(usize, i128) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut left = bytes;
        for place in 0..self.count {
            left = skip_spaces(left);
            if left.is_empty() {
                if place == 0 {
                    return Err(Invalid.into());
                }
                break;
            }
            let (value, rest) = number(left)?;
            left = rest;
            if !(self.least..=self.most).contains(&value) {
                return Err(Invalid.into());
            }
            set(place, value)?;
        }
        left = skip_spaces(left);
        // A write to a file of one `unsigned int` consumes all bytes.
        let rest = if self.form == Form::Unsigned {
            0
        } else {
            left.len()
        };
        Ok(bytes.len() - rest)
    }
}

fn skip_spaces(bytes: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let text = bytes.iter().position(|byte| !is_space(byte));
    &bytes[text.unwrap_or(bytes.len())..]
}

/// Parses the number at the start of `bytes`, in C's notations; the rest is empty or white space.
fn number(bytes: &[u8]) -> Result<(i128, &[u8]), Invalid> {
    let (negative, digits) = match bytes.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, bytes),
    };
    let (base, digits) = match digits {
        [b'0', b'x' | b'X', first, ..] if first.is_ascii_hexdigit() => (16, &digits[2..]),
        [b'0', ..] => (8, digits),
        [first, ..] if first.is_ascii_digit() => (10, digits),
        _ => return Err(Invalid),
    };
    let is_digit = |byte: &u8| char::from(*byte).is_digit(base);
    let end = digits.iter().position(|byte| !is_digit(byte));
    let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
    if bytes.len() - rest.len() > LONGEST {
        return Err(Invalid);
    }
    // Linux parses at most its buffer; the next byte must be a separator.
    if !matches!(rest.first(), None | Some(b' ' | b'\t' | b'\n')) {
        return Err(Invalid);
    }
    let text = core::str::from_utf8(digits).map_err(|_| Invalid)?;
    let value = u64::from_str_radix(text, base).map_err(|_| Invalid)?;
    let value = i128::from(value);
    Ok((if negative { -value } else { value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, text: &str) -> Result<(usize, [i128; 4]), Invalid> {
        let mut values = [-1; 4];
        let set = |place: usize, value| {
            values[place] = value;
            Ok::<(), Invalid>(())
        };
        let used = sysctl(path).write(text.as_bytes(), set)?;
        Ok((used, values))
    }

    #[test]
    fn numbers_are_read_as_linux_reads_them() {
        let one = |text| write("vm/max_map_count", text).map(|(used, values)| (used, values[0]));
        assert_eq!(one("7\n"), Ok((2, 7)));
        assert_eq!(one("  0x10 \t\n"), Ok((9, 16)));
        assert_eq!(one("010"), Ok((3, 8)));
        assert_eq!(one("1 2"), Ok((2, 1)));
        for bad in ["", " ", "x", "1x", "-1", "08", "+1", "2147483648", "1-"] {
            assert_eq!(one(bad), Err(Invalid), "{bad}");
        }
        let long = |text| write("kernel/shmmax", text).map(|(used, values)| (used, values[0]));
        assert_eq!(long("18446744073709551615"), Ok((20, ANY_LONG)));
        assert_eq!(long("18446744073709551616"), Err(Invalid));
        assert_eq!(long("-5"), Err(Invalid));
        assert_eq!(write("fs/pipe-max-size", "4096 x").unwrap().0, 6);
    }

    #[test]
    fn several_are_set_as_far_as_they_go() {
        let (used, values) = write("kernel/printk", "5 4\n").unwrap();
        assert_eq!((used, values), (4, [5, 4, -1, -1]));
        let (used, values) = write("kernel/printk", "1 2 3 4 5").unwrap();
        assert_eq!((used, values), (8, [1, 2, 3, 4]));
    }

    #[test]
    fn paths_ascend() {
        assert!(SYSCTLS.is_sorted_by_key(|file| file.path));
    }
}
