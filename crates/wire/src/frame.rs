//! Frames: a channel number, a length of two bytes (little-endian) and that many bytes.

use alloc::vec::Vec;

/// Sent once by the guest before its first frame.
pub const SYNC: &[u8; 8] = b"\0stile1\n";

/// The maximum payload of a frame in bytes.
pub const MAX_PAYLOAD: usize = u16::MAX as usize;

const HEADER: usize = 3;

/// The channel that a frame's payload belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// Host to guest: standard input; an empty payload is end-of-file.
    Stdin,
    /// Guest to host: standard output, or the terminal's output if the job has a terminal.
    Stdout,
    /// Guest to host: standard error.
    Stderr,
    /// Both ways: one [`Control`] message.
    Control,
    /// Guest to host: the text of the job's crossings, before its exit.
    Counts,
    /// Guest to host: lines of the system-call trace.
    Trace,
}

impl Channel {
    const ALL: [Self; 6] = [
        Self::Stdin,
        Self::Stdout,
        Self::Stderr,
        Self::Control,
        Self::Counts,
        Self::Trace,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// A message about a job rather than a part of its input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Guest: the job with this index starts.
    Started(u16),
    /// Guest: the program ended with this status.
    Exited(u8),
    /// Guest: the program was killed by this signal.
    Killed(u8),
    /// Guest: the program could not be started, with the error number.
    Failed(u16),
    /// Guest: this many bytes of standard input were read. Host: this much output, by its cost.
    Credit(u16),
    /// Host: the terminal has this many rows and columns.
    Resize(u16, u16),
    /// Host: send this signal to the program's process group.
    Signal(u8),
    /// Host: send this signal to the program alone.
    Stop(u8),
}

impl Control {
    /// The payload of the message's frame: a tag and two numbers.
    pub fn encode(self) -> [u8; 5] {
        let (tag, first, second) = match self {
            Self::Started(index) => (0, index, 0),
            Self::Exited(status) => (1, status.into(), 0),
            Self::Killed(signal) => (2, signal.into(), 0),
            Self::Failed(errno) => (3, errno, 0),
            Self::Credit(bytes) => (4, bytes, 0),
            Self::Resize(rows, columns) => (5, rows, columns),
            Self::Signal(signal) => (6, signal.into(), 0),
            Self::Stop(signal) => (7, signal.into(), 0),
        };
        let ([a, b], [c, d]) = (first.to_le_bytes(), second.to_le_bytes());
        [tag, a, b, c, d]
    }

    /// The message in a payload; `None` if it is invalid.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let &[tag, a, b, c, d] = payload else {
            return None;
        };
        let (first, second) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        Some(match tag {
            0 => Self::Started(first),
            1 => Self::Exited(a),
            2 => Self::Killed(a),
            3 => Self::Failed(first),
            4 => Self::Credit(first),
            5 => Self::Resize(first, second),
            6 => Self::Signal(a),
            7 => Self::Stop(a),
            _ => return None,
        })
    }
}

/// Appends frames for `payload` to `out`: one for each [`MAX_PAYLOAD`] bytes, and an empty one if
/// there are none.
pub fn encode(channel: Channel, mut payload: &[u8], out: &mut Vec<u8>) {
    loop {
        let (now, later) = payload.split_at(payload.len().min(MAX_PAYLOAD));
        out.push(channel as u8);
        out.extend_from_slice(&(now.len() as u16).to_le_bytes());
        out.extend_from_slice(now);
        payload = later;
        if payload.is_empty() {
            return;
        }
    }
}

/// An event of a [`Decoder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Bytes from before [`SYNC`].
    Noise(Vec<u8>),
    /// A frame.
    Frame(Channel, Vec<u8>),
    /// A frame of an unknown channel: the stream is broken, and nothing after it can be trusted.
    Broken(u8),
}

/// Splits a stream into items, in whatever pieces it arrives.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    synced: bool,
}

impl Decoder {
    /// For a stream that starts with noise and [`SYNC`], at the host's end.
    pub fn awaiting_sync() -> Self {
        Self {
            bytes: Vec::new(),
            synced: false,
        }
    }

    /// For a stream of frames only, at the guest's end.
    pub fn synced() -> Self {
        Self {
            bytes: Vec::new(),
            synced: true,
        }
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether `SYNC` has passed.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The next complete item, or `None` until more bytes arrive.
    pub fn pop(&mut self) -> Option<Item> {
        if !self.synced {
            return self.noise();
        }
        let &[channel, low, high, ..] = self.bytes.as_slice() else {
            return None;
        };
        let Some(channel) = Channel::from_byte(channel) else {
            return Some(Item::Broken(channel));
        };
        let end = HEADER + usize::from(u16::from_le_bytes([low, high]));
        if self.bytes.len() < end {
            return None;
        }
        let payload = self.bytes[HEADER..end].to_vec();
        self.bytes.drain(..end);
        Some(Item::Frame(channel, payload))
    }

    /// Bytes that can no longer be part of `SYNC`, if any.
    fn noise(&mut self) -> Option<Item> {
        if let Some(at) = self
            .bytes
            .windows(SYNC.len())
            .position(|window| window == SYNC)
        {
            let noise = self.bytes[..at].to_vec();
            self.bytes.drain(..at + SYNC.len());
            self.synced = true;
            return if noise.is_empty() {
                self.pop()
            } else {
                Some(Item::Noise(noise))
            };
        }
        let kept = (1..SYNC.len())
            .rev()
            .find(|&n| self.bytes.ends_with(&SYNC[..n]))
            .unwrap_or(0);
        let noise: Vec<u8> = self.bytes.drain(..self.bytes.len() - kept).collect();
        (!noise.is_empty()).then_some(Item::Noise(noise))
    }
}
