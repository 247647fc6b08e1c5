//! SYN cookies (RFC 4987, 3.6), following Linux: the initial sequence number encodes its time and
//! the peer's MSS, and the timestamp holds the other options.

use super::request::Request;
use crate::config::Config;
use crate::connection::Agreed;
use crate::header::Header;
use crate::isn::{Secret, Tuple};
use crate::options::MOST_SCALE;
use crate::rtt::SECOND;

/// The unit of a cookie's age, and the maximum age in units.
const PERIOD: u64 = 60 * SECOND;
const MOST_AGE: u32 = 2;
/// The MSS values that a cookie can encode; the largest one that is not above the peer's is used.
const SIZES: [u16; 6] = [536, 1220, 1300, 1440, 1460, 8940];
/// The lower bits of the number have an index, the others the time.
const INDEX_BITS: u32 = 24;
const INDEX: u32 = (1 << INDEX_BITS) - 1;
/// The bits of a timestamp that encode options: the scale, or all ones for none, and SACK.
const OPTION_BITS: u32 = 0x3f;
const NO_SCALE: u32 = 0xf;
const SACK: u32 = 0x10;

fn hashes(secret: &Secret, tuple: &Tuple, period: u32) -> (u32, u32) {
    let fixed = secret.hash(tuple, 1 << 32) as u32;
    let timed = secret.hash(tuple, 1 << 33 | u64::from(period)) as u32;
    (fixed, timed)
}

/// The SYN-ACK whose sequence number and timestamp are the cookie.
pub(super) fn answer(secret: &Secret, config: &Config, now: u64, mut request: Request) -> Header {
    let period = (now / PERIOD) as u32;
    let (fixed, timed) = hashes(secret, &request.tuple, period);
    let mss = request.agreed.mss.unwrap_or(0);
    let index = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0) as u32;
    request.identity.isn = fixed
        .wrapping_add(request.peer_isn)
        .wrapping_add(period << INDEX_BITS)
        .wrapping_add(timed.wrapping_add(index) & INDEX);
    if request.agreed.stamp.is_none() {
        request.agreed.scales = None;
        request.agreed.sack = false;
    }
    let mut header = request.answer(config, now);
    if let Some(stamps) = &mut header.options.timestamps {
        let scale = request
            .agreed
            .scales
            .map_or(NO_SCALE, |(theirs, _)| u32::from(theirs));
        let bits = scale | if request.agreed.sack { SACK } else { 0 };
        let clock = stamps.value.wrapping_sub(request.identity.stamp_offset);
        // Never later than now, since the connection's own timestamps follow.
        let held = clock & !OPTION_BITS | bits;
        let held = if held > clock {
            held.wrapping_sub(OPTION_BITS + 1)
        } else {
            held
        };
        stamps.value = held.wrapping_add(request.identity.stamp_offset);
    }
    header
}

/// The parameters that the SYNs had negotiated, if the ACK returns a cookie that is no older than
/// two minutes.
pub(super) fn check(
    secret: &Secret,
    config: &Config,
    now: u64,
    tuple: &Tuple,
    header: &Header,
) -> Option<Agreed> {
    let period = (now / PERIOD) as u32;
    let (fixed, _) = hashes(secret, tuple, period);
    let cookie = header.ack.wrapping_sub(1);
    let rest = cookie
        .wrapping_sub(fixed)
        .wrapping_sub(header.seq.wrapping_sub(1));
    let age = period.wrapping_sub(rest >> INDEX_BITS) & 0xff;
    if age >= MOST_AGE {
        return None;
    }
    let (_, timed) = hashes(secret, tuple, period.wrapping_sub(age));
    let index = rest.wrapping_sub(timed) & INDEX;
    let mss = *SIZES.get(index as usize)?;
    let stamps = header.options.timestamps.filter(|_| config.timestamps);
    let bits = stamps.map_or(NO_SCALE, |stamps| {
        stamps.echo.wrapping_sub(secret.stamp_offset(tuple)) & OPTION_BITS
    });
    let scale = (bits & NO_SCALE) as u8;
    Some(Agreed {
        mss: Some(mss),
        scales: (config.window_scaling && scale <= MOST_SCALE).then(|| (scale, config.scale())),
        sack: config.sack && bits & SACK != 0,
        stamp: stamps.map(|stamps| stamps.value),
    })
}
