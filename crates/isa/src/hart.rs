//! Parses one hart's node of the device tree.

use core::fmt;

use crate::extension::named;
use crate::{Extension::*, Extensions};

/// The extensions that a hart implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hart {
    /// Width of an integer register in bits: 32, 64 or 128; 0 if the node does not say.
    pub xlen: u32,
    /// Its extensions, and all that they imply.
    pub extensions: Extensions,
    /// The first place that could not be parsed, if any; the rest was parsed.
    pub malformed: Option<Malformed>,
}

/// The first place in an ISA string that could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset in bytes from the start of the string.
    pub at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed ISA string at byte {}", self.at)
    }
}

impl Hart {
    /// Parses `riscv,isa-base` (such as `rv64i`) and the names in `riscv,isa-extensions`.
    pub fn from_list<'a>(base: &str, names: impl IntoIterator<Item = &'a str>) -> Hart {
        let (xlen, letters) = split_base(base.as_bytes());
        let malformed =
            (xlen == 0 || !letters.eq_ignore_ascii_case(b"i")).then_some(Malformed { at: 0 });
        let listed = names
            .into_iter()
            .fold(Extensions::NONE, |all, name| all.or(named(name)));
        let extensions = if malformed.is_none() {
            listed.with(I)
        } else {
            listed
        };
        Hart {
            xlen,
            extensions: extensions.resolved(),
            malformed,
        }
    }

    /// Parses `riscv,isa`, such as `rv64imafdc_zicsr2p0_sstc` (Unprivileged Architecture, "ISA
    /// Extension Naming Conventions").
    ///
    /// Case does not matter. Versions are skipped, as is `su` after the letters (modes, in the
    /// strings of old emulators). Zicsr, Zifencei, Zicntr and Zihpm were part of I when such
    /// strings were written, so I implies them here.
    pub fn from_string(isa: &str) -> Hart {
        let (xlen, rest) = split_base(isa.as_bytes());
        let mut reader = Reader {
            all: isa,
            rest,
            malformed: (xlen == 0).then_some(0),
        };
        let mut extensions = Extensions::NONE;
        while let Some(name) = reader.next_name() {
            extensions = extensions.or(named(name));
        }
        if extensions.has(I) {
            extensions = extensions.or(Extensions::of(&[Zicsr, Zifencei, Zicntr, Zihpm]));
        }
        Hart {
            xlen,
            extensions: extensions.resolved(),
            malformed: reader.malformed.map(|at| Malformed { at }),
        }
    }
}

/// Splits off `rv32`, `rv64` or `rv128`; returns 0 and the whole string if it starts otherwise.
fn split_base(isa: &[u8]) -> (u32, &[u8]) {
    let bases = [(&b"rv32"[..], 32), (b"rv64", 64), (b"rv128", 128)];
    let fits =
        |base: &[u8]| isa.len() >= base.len() && isa[..base.len()].eq_ignore_ascii_case(base);
    let found = bases.into_iter().find(|(base, _)| fits(base));
    found.map_or((0, isa), |(base, xlen)| (xlen, &isa[base.len()..]))
}

/// Splits an ISA string into names.
struct Reader<'a> {
    all: &'a str,
    rest: &'a [u8],
    malformed: Option<usize>,
}

impl<'a> Reader<'a> {
    /// The next name, without its version. Bytes that form no name are skipped and reported.
    fn next_name(&mut self) -> Option<&'a str> {
        loop {
            let start = self.position();
            match *self.rest.first()? {
                b'_' => self.skip(1),
                b's' if self.in_letters() && self.rest.get(1) == Some(&b'u') => self.skip(2),
                letter if is_prefix(letter) => {
                    let name = self
                        .rest
                        .split(|byte| *byte == b'_')
                        .next()
                        .unwrap_or_default();
                    self.skip(name.len());
                    if name.len() > 1 && name.iter().all(u8::is_ascii_alphanumeric) {
                        return self.all.get(start..start + without_version(name).len());
                    }
                    self.malformed.get_or_insert(start);
                }
                letter if letter.is_ascii_alphabetic() => {
                    self.skip(1);
                    self.skip_version();
                    return self.all.get(start..start + 1);
                }
                _ => {
                    self.skip(1);
                    self.malformed.get_or_insert(start);
                }
            }
        }
    }

    fn position(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    /// True if the previous byte was a single-letter extension, not an underscore.
    fn in_letters(&self) -> bool {
        self.position()
            .checked_sub(1)
            .is_some_and(|before| self.all.as_bytes()[before] != b'_')
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// Skips a version, `2` or `2p0`. A `p` that has no digits before it, or none after it, is the
    /// extension P.
    fn skip_version(&mut self) {
        let major = digits(self.rest);
        self.skip(major);
        if major > 0
            && self
                .rest
                .first()
                .is_some_and(|byte| byte.eq_ignore_ascii_case(&b'p'))
        {
            let minor = digits(&self.rest[1..]);
            self.skip(if minor > 0 { 1 + minor } else { 0 });
        }
    }
}

/// True for the letters with which multi-letter names start.
fn is_prefix(letter: u8) -> bool {
    matches!(letter.to_ascii_lowercase(), b's' | b'x' | b'z')
}

/// The number of digits at the start of `bytes`.
fn digits(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// `name` without a version (`2` or `2p0`) at its end.
fn without_version(name: &[u8]) -> &[u8] {
    let trim = |name: &[u8]| {
        name.iter()
            .rposition(|byte| !byte.is_ascii_digit())
            .map_or(0, |last| last + 1)
    };
    let major = &name[..trim(name)];
    match major {
        [before @ .., b'p' | b'P']
            if major.len() < name.len() && before.last().is_some_and(u8::is_ascii_digit) =>
        {
            &before[..trim(before)]
        }
        _ => major,
    }
}
