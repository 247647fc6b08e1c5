//! Reading the bytes of a connection, whatever its family.

use super::channel::{Channel, Found, Reading};
use super::socket::Received;
use super::wait::Wait;
use crate::errno::Result;
use crate::fs::io::Sink;
use linux_raw_sys::net::{MSG_PEEK, MSG_TRUNC, MSG_WAITALL};

/// Receives bytes, or a record, with MSG_ flags. `credentials`: the sender's are wanted. `ended` says that nothing more
/// shall be waited for.
pub fn receive(
    channel: &Channel,
    to: &mut Sink,
    flags: u32,
    credentials: bool,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Received> {
    let reading = Reading {
        peek: flags & MSG_PEEK != 0,
        credentials,
    };
    let all = flags & MSG_WAITALL != 0 && !reading.peek && !channel.is_framed();
    let mut received = Received::default();
    let mut total = 0;
    while to.left() > 0 || channel.is_framed() {
        let left = to.left();
        let found = match next(channel, to, reading, &ended, wait) {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        };
        total += found.count;
        let go_on = all && found.ancillary.is_empty();
        to.allow(left - found.count);
        if total == found.count {
            received.found = found;
        }
        if !go_on {
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
    Ok(received)
}

/// The next bytes or record, waited for; `None` at the end.
fn next(
    channel: &Channel,
    to: &mut Sink,
    reading: Reading,
    ended: impl Fn() -> bool,
    wait: &Wait,
) -> Result<Option<Found>> {
    let is_over = || channel.is_ended() || ended();
    loop {
        if let Some(found) = channel.read(to, reading)? {
            return Ok(Some(found));
        }
        if let Some(error) = channel.take_error() {
            return Err(error);
        }
        if is_over() {
            // What was written before the end may have come after the look above.
            return channel.read(to, reading);
        }
        wait.until(channel.readable(), || {
            channel.has_data() || is_over() || channel.has_error()
        })?;
    }
}
