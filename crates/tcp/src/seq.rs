//! Sequence numbers (RFC 9293, 3.4) of 64 bits.
//!
//! The wire carries their low 32 bits. Internally they are extended, so that they compare as plain
//! numbers and count the bytes of the stream however long a connection lives.

/// An extended sequence number. A segment carries its low 32 bits.
pub type Seq = u64;

/// The extended form of an initial sequence number. It is far enough above zero that every number a
/// peer can name is above zero.
pub const fn first(isn: u32) -> Seq {
    (1 << 32) | isn as u64
}

/// The number with these low 32 bits that is closest to `near`: at most 2^31 away.
pub const fn extend(near: Seq, low: u32) -> Seq {
    near.wrapping_add_signed(low.wrapping_sub(near as u32) as i32 as i64)
}

/// The part of the number that a segment carries.
pub const fn wire(seq: Seq) -> u32 {
    seq as u32
}

/// Whether timestamp `a` is older than `b` (RFC 7323, 5.2): they wrap around, like sequence numbers
/// on the wire.
pub const fn is_older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest() {
        let start = first(u32::MAX - 1);
        assert_eq!(extend(start, 3), start + 5);
        assert_eq!(extend(start + 5, u32::MAX - 1), start);
        assert_eq!(wire(start + 5), 3);
        assert_eq!(extend(first(0), u32::MAX), first(0) - 1);
        assert!(is_older(u32::MAX, 0) && !is_older(0, u32::MAX) && !is_older(7, 7));
    }
}
