//! Settings of a process that are changed by writes to its files in procfs.

use super::super::seq_file::Text;
use super::subject::{Subject, trim};
use crate::errno::{Errno, Result};
use crate::put;
use crate::task::{Thread, count_groups, current, require};
use core::num::{IntErrorKind, ParseIntError};
use linux_raw_sys::general::{CAP_SYS_ADMIN, CAP_SYS_NICE};

pub fn personality(subject: &Subject, text: &mut Text) -> Result<()> {
    let thread = subject.thread.as_ref().ok_or(Errno::ESRCH)?;
    put!(text, "{:08x}\n", thread.personality());
    Ok(())
}

/// The thread whose slack is read or set: CAP_SYS_NICE is required for others.
fn slack_of(subject: &Subject) -> Result<&Thread> {
    let thread = subject.thread.as_deref().ok_or(Errno::ESRCH)?;
    if !core::ptr::eq(thread, &*current()) {
        require(CAP_SYS_NICE)?;
    }
    Ok(thread)
}

pub fn timer_slack(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{}\n", slack_of(subject)?.timer_slack());
    Ok(())
}

/// In decimal digits (kstrtoull_from_user); 0 for the initial value.
pub fn set_timer_slack(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let digits = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let digits = core::str::from_utf8(digits).map_err(|_| Errno::EINVAL)?;
    let ns = digits.parse().map_err(|error: ParseIntError| {
        if *error.kind() == IntErrorKind::PosOverflow {
            Errno::ERANGE
        } else {
            Errno::EINVAL
        }
    })?;
    slack_of(subject)?.set_timer_slack(ns);
    Ok(())
}

pub fn comm(subject: &Subject, text: &mut Text) -> Result<()> {
    text.push(trim(&subject.name()));
    text.push(b"\n");
    Ok(())
}

pub fn set_comm(subject: &Subject, bytes: &[u8]) -> Result<()> {
    if subject.process.pid() != current().process_id() {
        return Err(Errno::EINVAL);
    }
    let name = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    subject.thread.as_ref().ok_or(Errno::ESRCH)?.set_name(name);
    Ok(())
}

pub fn traced(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{}\n", subject.process.is_traced() as u8);
    Ok(())
}

/// A process can only set this for itself.
pub fn set_traced(subject: &Subject, bytes: &[u8]) -> Result<()> {
    if subject.process.pid() != current().process_id() {
        return Err(Errno::EPERM);
    }
    match bytes.trim_ascii() {
        b"0" => count_groups::set_traced(false),
        b"1" => count_groups::set_traced(true),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// The only user namespace maps all users and groups.
pub fn all_identities(_subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{:>10} {:>10} {:>10}\n", 0, 0, u32::MAX);
    Ok(())
}

/// The mappings of the initial namespace are already set.
pub fn set_identities(_subject: &Subject, _bytes: &[u8]) -> Result<()> {
    Err(Errno::EPERM)
}

/// Processes of the initial namespace may call setgroups(2), which cannot be denied once groups are
/// mapped.
pub fn set_setgroups(_subject: &Subject, bytes: &[u8]) -> Result<()> {
    require(CAP_SYS_ADMIN).map_err(|_| Errno::EACCES)?;
    match bytes.trim_ascii_end() {
        b"allow" => Ok(()),
        b"deny" => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

pub fn dump_filter(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{:08x}\n", subject.process.dump_filter());
    Ok(())
}

pub fn set_dump_filter(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let text = core::str::from_utf8(bytes.trim_ascii()).map_err(|_| Errno::EINVAL)?;
    let filter = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    subject
        .process
        .set_dump_filter(filter.map_err(|_| Errno::EINVAL)?);
    Ok(())
}

pub fn oom_adjust(subject: &Subject, text: &mut Text) -> Result<()> {
    put!(text, "{}\n", subject.process.oom_adjust.get());
    Ok(())
}

pub fn set_oom_adjust(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let value = core::str::from_utf8(bytes.trim_ascii())
        .ok()
        .and_then(|text| text.parse().ok());
    match value {
        Some(value @ -1000..=1000) => subject.process.oom_adjust.set(value),
        _ => Err(Errno::EINVAL),
    }
}

/// The number of allocations of the thread up to the one that fails; 0 if it has failed.
#[cfg(debug_assertions)]
pub fn fail_nth(subject: &Subject, text: &mut Text) -> Result<()> {
    let thread = subject.thread.as_ref().ok_or(Errno::ESRCH)?;
    put!(text, "{}\n", thread.arch.fail_nth.get());
    Ok(())
}

/// In the digits of any base (kstrtouint_from_user).
#[cfg(debug_assertions)]
pub fn set_fail_nth(subject: &Subject, bytes: &[u8]) -> Result<()> {
    let digits = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let (digits, radix) = match digits {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => (digits, 10),
    };
    let is_number = digits.first().is_some_and(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number);
    let number = u32::from_str_radix(digits.ok_or(Errno::EINVAL)?, radix);
    let number = number.map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => Errno::ERANGE,
        _ => Errno::EINVAL,
    })?;
    let thread = subject.thread.as_ref().ok_or(Errno::ESRCH)?;
    thread.arch.fail_nth.set(number);
    Ok(())
}
