//! syslog(2): the kernel's log, as text.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::{CAP_SYS_ADMIN, CAP_SYSLOG};

use crate::errno::{Errno, Result};
use crate::fs::kmsg;
use crate::fs::seq_file::Text;
use crate::log::{self, Found, LEVELS, Place};
use crate::mm::user::UserSlice;
use crate::put;
use crate::sync::Mutex;
use crate::task::{can, require};

/// Commands (include/linux/syslog.h).
const CLOSE: u32 = 0;
const OPEN: u32 = 1;
const READ: u32 = 2;
/// Copies the newest lines that fit.
pub const READ_ALL: u32 = 3;
const READ_CLEAR: u32 = 4;
const CLEAR: u32 = 5;
const CONSOLE_OFF: u32 = 6;
const CONSOLE_ON: u32 = 7;
const CONSOLE_LEVEL: u32 = 8;
const SIZE_UNREAD: u32 = 9;
const SIZE_BUFFER: u32 = 10;

const _: () = assert!(
    abi::options::SYSLOG.is_handled_by(&[
        CLOSE as u64,
        OPEN as u64,
        READ as u64,
        READ_ALL as u64,
        READ_CLEAR as u64,
        CLEAR as u64,
        CONSOLE_OFF as u64,
        CONSOLE_ON as u64,
        CONSOLE_LEVEL as u64,
        SIZE_UNREAD as u64,
        SIZE_BUFFER as u64,
    ]),
    "abi and syslog disagree"
);

/// `/proc/sys/kernel/dmesg_restrict`: whether reading the log requires a capability. It does by
/// default, as on Debian's Linux.
pub static RESTRICTED: AtomicUsize = AtomicUsize::new(1);

/// State shared by all readers of the log.
struct Shared {
    /// The next message for SYSLOG_ACTION_READ, and how much of it has been read.
    unread: Option<(Place, usize)>,
    cleared: Option<Place>,
    /// The console's level while the console is off.
    level: Option<usize>,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    unread: None,
    cleared: None,
    level: None,
});

/// The first record after the log was last cleared.
pub fn cleared() -> Place {
    let cleared = SHARED.lock().cleared;
    cleared.unwrap_or_else(|| log::bounds().0)
}

/// EPERM unless the current thread may execute this command.
pub fn check(command: u32) -> Result<()> {
    let open = matches!(command, READ_ALL | SIZE_BUFFER);
    if open && RESTRICTED.load(Relaxed) == 0 || can(CAP_SYSLOG) {
        return Ok(());
    }
    require(CAP_SYS_ADMIN)
}

/// syslog(2)
pub fn syslog(command: u32, to: usize, len: i32) -> Result<usize> {
    check(command)?;
    match command {
        CLOSE | OPEN => {}
        READ | READ_ALL | READ_CLEAR => {
            let len = usize::try_from(len).ok().filter(|_| to != 0);
            let to = UserSlice::new(to, len.ok_or(Errno::EINVAL)?);
            return match command {
                _ if to.is_empty() => Ok(0),
                READ => read(to),
                _ => read_all(to, command == READ_CLEAR),
            };
        }
        CLEAR => SHARED.lock().cleared = Some(log::bounds().1),
        CONSOLE_OFF => {
            let mut shared = SHARED.lock();
            let least = LEVELS[2].load(Relaxed);
            let level = LEVELS[0].swap(least, Relaxed);
            shared.level.get_or_insert(level);
        }
        CONSOLE_ON => {
            if let Some(level) = SHARED.lock().level.take() {
                LEVELS[0].store(level, Relaxed);
            }
        }
        CONSOLE_LEVEL => {
            let level = len.try_into().ok().filter(|level| (1..=8).contains(level));
            let level: usize = level.ok_or(Errno::EINVAL)?;
            SHARED.lock().level = None;
            LEVELS[0].store(level.max(LEVELS[2].load(Relaxed)), Relaxed);
        }
        SIZE_UNREAD => {
            let (place, skip) = unread();
            return Ok(each(place, |_, _| Ok(true))?.1.saturating_sub(skip));
        }
        SIZE_BUFFER => return Ok(log::SIZE),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Where SYSLOG_ACTION_READ continues, and how much of that record has been read.
fn unread() -> (Place, usize) {
    let first = log::bounds().0;
    let unread = SHARED.lock().unread;
    unread
        .filter(|(place, _)| *place >= first)
        .unwrap_or((first, 0))
}

/// Passes the records from `place` on as text to `take`, with the position after each, until it
/// returns false; returns the position reached, and the number of bytes before it.
fn each(
    mut place: Place,
    mut take: impl FnMut(&[u8], Place) -> Result<bool>,
) -> Result<(Place, usize)> {
    let mut total = 0;
    let mut bytes = [0; log::LONGEST];
    loop {
        match log::look(place, &mut bytes) {
            Found::Nothing => return Ok((place, total)),
            Found::Gone => place = log::bounds().0,
            Found::Record { head, len, next } => {
                let mut text = Text::default();
                let (s, us) = (head.time / 1_000_000_000, head.time / 1000 % 1_000_000);
                for line in bytes[..len].split(|&byte| byte == b'\n') {
                    put!(text, "<{}>[{s:5}.{us:06}] ", head.priority);
                    text.push(line);
                    text.push(b"\n");
                }
                let text = text.read_all()?;
                if !take(&text, next)? {
                    return Ok((place, total));
                }
                total += text.len();
                place = next;
            }
        }
    }
}

/// SYSLOG_ACTION_READ: returns records that no such call has read; waits for one.
fn read(to: UserSlice) -> Result<usize> {
    let more = kmsg::more()?;
    more.wait(|| unread().0 < log::bounds().1)?;
    let (place, mut skip) = unread();
    let mut done = 0;
    let mut rest = None;
    let (end, _) = each(place, |text, next| {
        // A record that was read in part may be gone by now.
        skip = skip.min(text.len());
        let part = (text.len() - skip).min(to.len() - done);
        to.skip(done).copy_out(&text[skip..skip + part])?;
        done += part;
        let whole = skip + part == text.len();
        rest = (!whole).then_some(skip + part);
        skip = 0;
        Ok(whole && next > place)
    })?;
    SHARED.lock().unread = Some((end, rest.unwrap_or(0)));
    Ok(done)
}

/// SYSLOG_ACTION_READ_ALL and SYSLOG_ACTION_READ_CLEAR: return the newest records since the log was
/// cleared, as many as fit.
fn read_all(to: UserSlice, clear: bool) -> Result<usize> {
    let first = cleared().max(log::bounds().0);
    let (_, mut left) = each(first, |_, _| Ok(true))?;
    let mut done = 0;
    let (end, _) = each(first, |text, _| {
        if left > to.len() {
            left -= text.len();
            return Ok(true);
        }
        let fits = done + text.len() <= to.len();
        if fits {
            to.skip(done).copy_out(text)?;
            done += text.len();
        }
        Ok(fits)
    })?;
    if clear {
        SHARED.lock().cleared = Some(end);
    }
    Ok(done)
}
