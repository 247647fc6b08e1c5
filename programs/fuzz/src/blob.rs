//! Structures that system calls read, with likely and with odd contents.

use random::Random;

use crate::arena;

/// A kind of structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blob {
    Bytes,
    Offset,
    Timespec,
    Timerspec,
    Timeval,
    Vectors,
    Address,
    Length,
    Message,
    Signals,
    Action,
    Event,
    SignalInfo,
    Stack,
    Poll,
    Descriptors,
    EpollEvent,
    OpenHow,
    SchedAttr,
    Semaphores,
    Limits,
    Header,
    QueueLimits,
    Groups,
    Waiters,
    Handle,
    Filter,
    Number,
    Arguments,
    Tags,
}

impl Blob {
    /// All kinds.
    pub const ALL: [Blob; 30] = [
        Blob::Bytes,
        Blob::Offset,
        Blob::Timespec,
        Blob::Timerspec,
        Blob::Timeval,
        Blob::Vectors,
        Blob::Address,
        Blob::Length,
        Blob::Message,
        Blob::Signals,
        Blob::Action,
        Blob::Event,
        Blob::SignalInfo,
        Blob::Stack,
        Blob::Poll,
        Blob::Descriptors,
        Blob::EpollEvent,
        Blob::OpenHow,
        Blob::SchedAttr,
        Blob::Semaphores,
        Blob::Limits,
        Blob::Header,
        Blob::QueueLimits,
        Blob::Groups,
        Blob::Waiters,
        Blob::Handle,
        Blob::Filter,
        Blob::Number,
        Blob::Arguments,
        Blob::Tags,
    ];
}

/// A writer of fields.
struct Fields<'a> {
    slot: &'a mut [u8],
    at: usize,
}

impl Fields<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.slot[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn half(&mut self, value: u64) -> &mut Self {
        self.put(&(value as u16).to_ne_bytes())
    }

    fn word(&mut self, value: u64) -> &mut Self {
        self.put(&(value as u32).to_ne_bytes())
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }
}

/// A length: mostly small.
pub fn length(random: &mut Random) -> u64 {
    match random.below(12) {
        0 => 0,
        1..4 => random.below(16),
        4..8 => random.below(300),
        8 => 4096,
        9 => random.below(70_000),
        10 => random.one_of(&[
            0x7fff_f000,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            1 << 47,
            1 << 63,
        ]),
        _ => random.edge(),
    }
}

/// A position in a file.
pub fn offset(random: &mut Random) -> u64 {
    match random.below(8) {
        0..4 => random.below(10_000),
        4 => random.below(4) * 4096,
        5 => u64::MAX - random.below(3),
        6 => (1 << 63) - 1 - random.below(5000),
        _ => 0,
    }
}

/// A time: none, wrong, or so late that it never comes.
fn time(fields: &mut Fields, random: &mut Random) {
    let (seconds, rest) = random.one_of(&[
        (0, 0),
        (0, 0),
        (3600, 0),
        (3600, 999_999),
        (u64::MAX, 0),
        (0, u64::MAX),
        (0, 1_000_000_000),
        (0, 1_000_000),
        (i64::MAX as u64, 0),
        (1 << 40, 999_999_999),
    ]);
    // No time that comes while the program runs.
    let rest = if (seconds, rest) == (0, 1_000_000) {
        1_000_000_001
    } else {
        rest
    };
    fields.long(seconds).long(rest);
}

/// An address of a socket.
fn address(fields: &mut Fields, random: &mut Random, port: u16) {
    let port = random
        .one_of(&[port, port, port + 1, port + 2, 0, 1])
        .to_be_bytes();
    let family = random.one_of(&[1, 1, 2, 2, 2, 10, 10, 16, 0, 17, 99]);
    fields.half(family);
    match family {
        1 => {
            let path = random.one_of(&["s0", "s1", "\0abstract", "d0/s", "f0", "none/s", ""]);
            fields.put(path.as_bytes());
        }
        10 => {
            let ip = random
                .one_of(&[1u128, 1, 0, 0xffff_7f00_0001])
                .to_be_bytes();
            fields.put(&port).word(0).put(&ip).word(random.below(2));
        }
        16 => {
            fields.half(0).word(random.below(3)).word(random.below(2));
        }
        _ => {
            let ip = random.one_of(&[
                [127, 0, 0, 1],
                [127, 0, 0, 1],
                [0; 4],
                [255; 4],
                [10, 1, 1, 1],
            ]);
            fields.put(&port).put(&ip);
        }
    }
}

/// Up to four vectors of memory; returns nothing about their number, which a call says.
fn vectors(fields: &mut Fields, random: &mut Random) {
    for _ in 0..4 {
        let at = match random.once_in(10) {
            true => arena::odd(random),
            false => arena::output(random),
        };
        let len = match random.once_in(10) {
            true => random.edge(),
            false => random.below(600),
        };
        fields.long(at as u64).long(len);
    }
}

/// The header of a message with control messages.
fn message(fields: &mut Fields, random: &mut Random) {
    let (name, name_len) = match random.below(3) {
        0 => (
            arena::structure(Blob::Address, random),
            random.one_of(&[16, 28, 110, 4, 3]),
        ),
        _ => (0, 0),
    };
    let vectors = arena::structure(Blob::Vectors, random);
    let control = match random.below(4) {
        0 => (
            arena::structure(Blob::Tags, random),
            random.one_of(&[24, 48, 72]),
        ),
        1 => (arena::output(random), random.below(256)),
        _ => (0, 0),
    };
    fields.long(name as u64).word(name_len).word(0);
    fields.long(vectors as u64).long(random.below(4));
    fields.long(control.0 as u64).long(control.1);
    fields.word(0).word(0);
}

/// Control messages of all sockets. Those of one family only are an error elsewhere, which Linux
/// notices at other times.
fn tags(fields: &mut Fields, random: &mut Random) {
    for _ in 0..3 {
        let len = random.one_of(&[20, 24]);
        fields.long(len).word(1).word(1);
        fields.word(random.below(40)).word(random.below(40));
    }
}

/// Fills a slot.
pub fn fill(kind: Blob, slot: &mut [u8], random: &mut Random, port: u16) {
    let fields = &mut Fields { slot, at: 0 };
    match kind {
        Blob::Bytes | Blob::Arguments => (0..32).for_each(|_| {
            fields.long(random.any());
        }),
        Blob::Offset => (0..4).for_each(|_| {
            fields.long(offset(random));
        }),
        Blob::Timespec | Blob::Timeval => (0..4).for_each(|_| time(fields, random)),
        Blob::Timerspec => {
            time(fields, random);
            time(fields, random);
        }
        Blob::Vectors => vectors(fields, random),
        Blob::Address => address(fields, random, port),
        Blob::Length => {
            fields.word(random.one_of(&[0, 4, 16, 28, 110, 128, u64::MAX, 1 << 31]));
        }
        Blob::Message => (0..4).for_each(|_| message(fields, random)),
        // Never the signal by which a blocked call ends.
        Blob::Signals => {
            let any = random.any();
            let set = random.one_of(&[0, u64::MAX, 0x0002_0200, 1 << 9, any, 1 << 33]);
            fields.long(set & !(1 << (libc::SIGALRM - 1)));
        }
        Blob::Action => {
            let handler = random.one_of(&[0, 1, 1, 1]);
            fields
                .long(handler)
                .long(random.edge() & !0x0400_0000)
                .long(0)
                .long(random.any());
        }
        Blob::Event => {
            fields
                .long(random.any())
                .word(random.below(66))
                .word(random.below(5))
                .word(random.below(4));
        }
        Blob::SignalInfo => {
            let code = random.one_of(&[-1i64, -2, -6, 0, 1, 0x80]) as u64;
            fields
                .word(random.below(66))
                .word(0)
                .word(code)
                .word(0)
                .long(random.any());
        }
        Blob::Stack => {
            fields
                .long(arena::page(random) as u64)
                .word(random.one_of(&[0, 1, 2, 4, 1 << 31]))
                .word(0);
            fields.long(random.one_of(&[0, 2048, 4096, 16384, u64::MAX]));
        }
        Blob::Poll => {
            (0..8).for_each(|_| {
                fields.word(random.below(50)).half(random.any()).half(0);
            });
        }
        Blob::Descriptors => (0..2).for_each(|_| {
            fields.long(random.any() & random.any());
        }),
        Blob::EpollEvent => {
            fields.word(random.edge()).word(0).long(random.any());
        }
        Blob::OpenHow => {
            let any = random.any();
            let how = random.one_of(&[0, 0x42, 0x40, 0x8_0000, 0x441, 0x20_0000, 2, any]);
            fields
                .long(how)
                .long(random.one_of(&[0, 0o644, 0o7777, 1 << 20]));
            fields.long(random.below(64));
        }
        Blob::SchedAttr => {
            fields
                .word(random.one_of(&[0, 48, 56, 64, 4096]))
                .word(random.below(8));
            fields
                .long(random.below(256))
                .word(random.below(45))
                .word(random.below(3));
            (0..5).for_each(|_| {
                fields.long(random.below(2000));
            });
        }
        Blob::Semaphores => {
            for _ in 0..4 {
                let change = random.one_of(&[0, 1, 2, 0xffff, 0x7fff, 0x8000]);
                fields
                    .half(random.below(6))
                    .half(change)
                    .half(random.one_of(&[0x800, 0x800, 0x1800]));
            }
        }
        Blob::Limits => (0..2).for_each(|_| {
            fields.long(random.one_of(&[0, 64, 4096, 1 << 20, 1 << 30, u64::MAX]));
        }),
        Blob::Header => {
            fields
                .word(random.one_of(&[0x1998_0330, 0x2007_1026, 0x2008_0522, 0]))
                .word(random.one_of(&[0, 0, 1]));
        }
        Blob::QueueLimits => {
            fields
                .long(random.one_of(&[0, 0x800]))
                .long(random.one_of(&[1, 4, 10, 11, 0]));
            fields.long(random.one_of(&[1, 64, 8192, 8193, 0]));
        }
        Blob::Groups => (0..16).for_each(|_| {
            fields.word(random.below(3000));
        }),
        Blob::Waiters => {
            for _ in 0..4 {
                let at = arena::output(random) as u64;
                fields
                    .long(0)
                    .long(at)
                    .word(random.one_of(&[2, 2, 0x82, 0, 1, 6]))
                    .word(0);
            }
        }
        Blob::Handle => {
            fields
                .word(random.one_of(&[0, 8, 12, 20, 128, 129]))
                .word(random.below(4));
        }
        Blob::Filter => {
            let program = arena::structure(Blob::Number, random);
            fields
                .long(random.one_of(&[0, 1, 2, 4097]))
                .long(program as u64);
        }
        Blob::Number => (0..8).for_each(|_| {
            fields.word(random.one_of(&[0, 1, 2, 4, 6, 100, u64::MAX, 1 << 31]));
        }),
        Blob::Tags => tags(fields, random),
    }
}
