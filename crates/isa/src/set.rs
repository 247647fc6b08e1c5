//! Sets of extensions.

use core::fmt;

use crate::Extension::{self, *};

/// A set of extensions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions(u128);

/// The state that the kernel saves and the operations that it enables for programs. Other
/// extensions need no support by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// Floating-point registers are saved (sstatus.FS).
    pub float: bool,
    /// Vector registers are saved (sstatus.VS).
    pub vector: bool,
    /// Cache blocks can be cleaned (senvcfg.CBCFE), and their size is known.
    pub zicbom: bool,
    /// Cache blocks can be zeroed (senvcfg.CBZE), and their size is known.
    pub zicboz: bool,
}

impl Extensions {
    /// The empty set.
    pub const NONE: Extensions = Extensions(0);

    /// The set of `extensions`.
    pub const fn of(extensions: &[Extension]) -> Extensions {
        let (mut set, mut at) = (Extensions::NONE, 0);
        while at < extensions.len() {
            set = set.with(extensions[at]);
            at += 1;
        }
        set
    }

    /// True if `extension` is in the set.
    #[inline]
    pub const fn has(self, extension: Extension) -> bool {
        self.0 >> extension as u32 & 1 == 1
    }

    /// True if all of `others` are in the set.
    pub const fn has_all(self, others: Extensions) -> bool {
        self.0 & others.0 == others.0
    }

    /// The set with `extension` added.
    pub const fn with(self, extension: Extension) -> Extensions {
        Extensions(self.0 | 1 << extension as u32)
    }

    /// The set with `extension` removed.
    pub const fn without(self, extension: Extension) -> Extensions {
        Extensions(self.0 & !(1 << extension as u32))
    }

    /// The intersection: taken over all harts, the extensions of the system.
    pub const fn and(self, other: Extensions) -> Extensions {
        Extensions(self.0 & other.0)
    }

    /// The union.
    pub const fn or(self, other: Extensions) -> Extensions {
        Extensions(self.0 | other.0)
    }

    /// The extensions of the set, in the order of `/proc/cpuinfo`.
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        Extension::ALL
            .iter()
            .copied()
            .filter(move |extension| self.has(*extension))
    }

    /// Adds the extensions that the members imply, then removes members whose requirements are
    /// missing.
    pub fn resolved(self) -> Extensions {
        let complete = fixed_point(self, |set| {
            let implied = set
                .iter()
                .fold(set, |set, extension| set.or(extension.implied()));
            // C with D implies Zcd (Zc specification).
            if implied.has(C) && implied.has(D) {
                implied.with(Zcd)
            } else {
                implied
            }
        });
        fixed_point(complete, |set| {
            let lacking = set
                .iter()
                .filter(|extension| !set.has_all(extension.needs()));
            lacking.fold(set, Extensions::without)
        })
    }

    /// The extensions of the set that programs can use.
    pub fn usable(self, usable: Usable) -> Extensions {
        let given = [
            (usable.float, Extensions::of(&[F, D, Q])),
            (
                usable.vector,
                Extensions::of(&[V, Zve32f, Zve32x, Zve64d, Zve64f, Zve64x]),
            ),
            (usable.zicbom, Extensions::of(&[Zicbom])),
            (usable.zicboz, Extensions::of(&[Zicboz])),
        ];
        let withheld = given
            .iter()
            .filter(|(given, _)| !given)
            .fold(Extensions::NONE, |all, (_, some)| all.or(*some));
        let left = Extensions(self.0 & !withheld.0);
        fixed_point(left, |set| {
            let lacking = set
                .iter()
                .filter(|extension| !set.has_all(extension.needs()));
            lacking.fold(set, Extensions::without)
        })
    }

    /// AT_HWCAP: one bit for each of the letters i, m, a, f, d, c and v (Linux,
    /// `arch/riscv/include/uapi/asm/hwcap.h`).
    pub fn hwcap(self) -> u64 {
        let letters = self.and(Extensions::of(&[I, M, A, F, D, C, V]));
        letters.iter().fold(0, |word, letter| {
            word | 1 << (letter.name().as_bytes()[0] - b'a')
        })
    }
}

/// Applies `step` until nothing changes. A step only adds or only removes, so this ends.
fn fixed_point(mut set: Extensions, step: impl Fn(Extensions) -> Extensions) -> Extensions {
    loop {
        let next = step(set);
        if next == set {
            return set;
        }
        set = next;
    }
}

/// Prints the part of an ISA string after `rv64`: letters, then names, each after an underscore.
impl fmt::Display for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|extension| match extension.name() {
                letter if letter.len() == 1 => f.write_str(letter),
                name => write!(f, "_{name}"),
            })
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
