//! Reading the bytes of a connection, whatever its family.

use super::channel::{Channel, Found, Reading};
use super::socket::Received;
use super::wait::Wait;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::task::sched::{cond_resched_interruptible, cond_resched_killable};
use alloc::vec::Vec;
use linux_raw_sys::net::{MSG_PEEK, MSG_TRUNC, MSG_WAITALL};

/// The mode of reads from a socket.
#[derive(Clone, Copy)]
pub struct ReadMode {
    /// Whether the sender's credentials are requested.
    pub credentials: bool,
    /// The minimum number of bytes to wait for.
    pub low_water: usize,
    /// Whether a peek waits for as many bytes as a read.
    pub peeks_wait: bool,
    /// The number of bytes that a peek skips (SO_PEEK_OFF).
    pub skip: usize,
}

impl ReadMode {
    /// For records: one record is waited for.
    pub const RECORDS: ReadMode = ReadMode {
        credentials: false,
        low_water: 1,
        peeks_wait: false,
        skip: 0,
    };
}

/// Receives bytes, or a record, with MSG_ flags. `ended` says whether there is nothing more to wait
/// for.
pub fn receive(
    channel: &Channel,
    to: &mut Sink,
    flags: u32,
    mode: ReadMode,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Received> {
    let mut received = Received::default();
    receive_in(&mut received, channel, to, flags, mode, ended, wait)?;
    Ok(received)
}

/// Like [`receive`], into `received`, which is the default value: it is large, and would be on the
/// stack once for each move.
fn receive_in(
    received: &mut Received,
    channel: &Channel,
    to: &mut Sink,
    flags: u32,
    mode: ReadMode,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<()> {
    let reading = Reading {
        peek: flags & MSG_PEEK != 0,
        skip: mode.skip,
        credentials: mode.credentials,
    };
    let least = match flags & MSG_WAITALL {
        0 => mode.low_water,
        _ => usize::MAX,
    };
    let least = least.min(to.left());
    let waits = !reading.peek && !channel.is_framed();
    if reading.peek && mode.peeks_wait {
        let least = least.saturating_add(mode.skip);
        let enough = || channel.has_enough(least) || channel.is_ended() || ended();
        match wait.until(channel.readable(), || enough() || channel.has_error()) {
            Err(Errno::EAGAIN) if channel.has_data_after(mode.skip) => {}
            done => done?,
        }
    }
    let mut total = 0;
    loop {
        let left = to.left();
        let found = match next(channel, to, reading, &ended, wait) {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(Errno::EFAULT) if !channel.is_framed() => {
                match read_faulted_in(channel, to, left, reading) {
                    Ok(Some(found)) => found,
                    Ok(None) => continue,
                    Err(error) if total == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        };
        total += found.count;
        let go_on = waits && total < least && found.ancillary.is_empty() && !found.marked;
        to.allow(left - found.count);
        if total == found.count {
            received.found = found;
        } else {
            received.found.ancillary.arrived = found.ancillary.arrived;
        }
        if !go_on || to.left() == 0 || cond_resched_interruptible().is_err() {
            break;
        }
    }
    received.count = total;
    if received.found.whole > received.found.count {
        received.flags |= MSG_TRUNC;
        if flags & MSG_TRUNC != 0 {
            received.count = received.found.whole;
        }
    }
    Ok(())
}

/// Repeats a read that failed because of a fault, which was not resolved under the channel's lock,
/// once it is resolved. `None` if another reader has taken the bytes meanwhile.
#[cold]
fn read_faulted_in(
    channel: &Channel,
    to: &mut Sink,
    left: usize,
    reading: Reading,
) -> Result<Option<Found>> {
    let mut most = usize::MAX;
    loop {
        let reached = to.fault_in()?.min(most);
        to.truncate(reached);
        match channel.read(to, reading) {
            // Another thread may discard the pages: at last one is enough.
            Err(Errno::EFAULT) => {
                most = (reached / 2).max(1);
                cond_resched_interruptible()?;
            }
            found => {
                to.allow(left);
                return found;
            }
        }
    }
}

/// The number of bytes that are discarded at a time.
const PART: usize = 512;

/// Receives up to `len` bytes as [`receive`] does, and discards them: MSG_TRUNC with TCP.
#[cold]
pub fn discard(
    channel: &Channel,
    len: usize,
    flags: u32,
    mode: ReadMode,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Received> {
    let least = match flags & MSG_WAITALL {
        0 => mode.low_water.min(len),
        _ => len,
    }
    .max(1);
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(PART.min(len))
        .map_err(|_| Errno::ENOMEM)?;
    bytes.resize(PART.min(len), 0);
    let (mut first, mut total) = (Received::default(), 0);
    while total < len || len == 0 {
        let wanted = bytes.len().min(len - total);
        let mut to = Sink::kernel(&mut bytes[..wanted]);
        let mode = ReadMode {
            low_water: (least - least.min(total)).max(1),
            // A peek finds the bytes that it skipped again.
            skip: mode.skip + if flags & MSG_PEEK != 0 { total } else { 0 },
            ..mode
        };
        let wait = if total < least { wait } else { &Wait::NEVER };
        let mut other = Received::default();
        let received = match total {
            0 => &mut first,
            _ => &mut other,
        };
        match receive_in(
            received,
            channel,
            &mut to,
            flags & !MSG_TRUNC,
            mode,
            &ended,
            wait,
        ) {
            Ok(()) => {}
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
        total += received.count;
        if received.count == 0 || received.found.marked || cond_resched_killable().is_err() {
            break;
        }
    }
    first.count = total;
    Ok(first)
}

/// Waits for the next bytes or record; `None` at the end.
fn next(
    channel: &Channel,
    to: &mut Sink,
    reading: Reading,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Option<Found>> {
    if let Some(found) = channel.read(to, reading)? {
        return Ok(Some(found));
    }
    let next = wait_for_next(channel, to, reading, ended, wait);
    if next.is_err() {
        channel.wake_next_receiver();
    }
    next
}

fn wait_for_next(
    channel: &Channel,
    to: &mut Sink,
    reading: Reading,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Option<Found>> {
    let is_over = || channel.is_ended() || ended();
    loop {
        if let Some(error) = channel.take_read_error() {
            return Err(error);
        }
        if is_over() {
            // Bytes written before the end may have arrived after the read above.
            return channel.read(to, reading);
        }
        wait.until(channel.readable(), || {
            channel.has_data_after(reading.skip) || is_over() || channel.has_error()
        })?;
        if let Some(found) = channel.read(to, reading)? {
            return Ok(Some(found));
        }
    }
}
