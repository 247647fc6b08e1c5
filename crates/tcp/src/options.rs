//! The options of a header: RFC 9293, 3.1 (MSS), RFC 7323 (window scale, timestamps), RFC 2018 and
//! 2883 (SACK). Any other is skipped by its length.

/// The maximum size of a header's options in bytes.
pub const MOST_BYTES: usize = 40;
/// The maximum window scale (RFC 7323, 2.3); larger values count as this one.
pub const MOST_SCALE: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The two values of the timestamps option (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock; here in milliseconds with an offset per connection.
    pub value: u32,
    /// TSecr: the latest valid TSval of the other end; valid with ACK.
    pub echo: u32,
}

/// Up to four blocks `[start, end)` of a SACK option, in their order on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [(u32, u32); 4],
    len: u8,
}

impl Blocks {
    /// Appends a block; false if there are four already.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let free = self.blocks.get_mut(usize::from(self.len));
        let Some(free) = free else { return false };
        *free = (start, end);
        self.len += 1;
        true
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The largest payload that the sender accepts in a segment; only in a SYN.
    pub mss: Option<u16>,
    /// The scale of the sender's later windows; only in a SYN.
    pub window_scale: Option<u8>,
    /// The sender accepts SACK blocks; only in a SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// The SACK blocks: what has arrived out of order, and twice.
    pub sack: Blocks,
}

impl Options {
    /// Parses options. An option of a wrong length ends the parsing, as in Linux: those before it
    /// are valid.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Options::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => bytes = rest,
                kind => {
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    let Some(value) = bytes.get(2..length) else {
                        break;
                    };
                    options.take(kind, value);
                    bytes = &bytes[length..];
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MOST_SCALE)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, value) if value.len() == 8 => {
                let (value, echo) = pair(value);
                self.timestamps = Some(Timestamps { value, echo });
            }
            (SACK, value) if value.len().is_multiple_of(8) => {
                for block in value.chunks_exact(8) {
                    let (start, end) = pair(block);
                    self.sack.push(start, end);
                }
            }
            _ => {}
        }
    }

    /// Writes the options, padded with NOPs to a multiple of four; returns the number of bytes.
    /// SACK blocks without room are left out, the last first.
    pub fn write(&self, to: &mut [u8; MOST_BYTES]) -> usize {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            to[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[MSS, 4, high, low]);
        }
        if self.sack_permitted {
            put(&[NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            put(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            put(&[NOP, NOP, TIMESTAMPS, 10]);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
        let blocks = self.fitting_blocks();
        if blocks > 0 {
            put(&[NOP, NOP, SACK, 2 + 8 * blocks as u8]);
            for (start, end) in &self.sack.as_slice()[..blocks] {
                put(&start.to_be_bytes());
                put(&end.to_be_bytes());
            }
        }
        at
    }

    /// The number of bytes that [`write`](Self::write) writes.
    pub fn len(&self) -> usize {
        let blocks = self.fitting_blocks();
        self.len_without_sack() + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    /// Whether no options are written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len_without_sack(&self) -> usize {
        4 * usize::from(self.mss.is_some())
            + 4 * usize::from(self.sack_permitted)
            + 4 * usize::from(self.window_scale.is_some())
            + 12 * usize::from(self.timestamps.is_some())
    }

    fn fitting_blocks(&self) -> usize {
        let room = (MOST_BYTES - self.len_without_sack()).saturating_sub(4) / 8;
        self.sack.as_slice().len().min(room)
    }
}

/// Splits eight bytes into two words.
fn pair(bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| {
        bytes[at..at + 4]
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    (word(0), word(4))
}
