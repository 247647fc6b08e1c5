//! The extensions that Stile knows.

use crate::Extensions;

/// Declares the extensions once; names, numbers and the order of `/proc/cpuinfo` come from this
/// list.
macro_rules! extensions {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// An extension that Stile knows, in the order of Linux's `/proc/cpuinfo`. Others are
        /// ignored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Extension {
            $($(#[$doc])* #[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Extension {
            /// All extensions, in order.
            pub const ALL: &'static [Extension] = &[$(Extension::$variant,)*];

            /// The name in lower case, as in device trees.
            pub const fn name(self) -> &'static str {
                match self { $(Extension::$variant => $name,)* }
            }
        }
    };
}

extensions! {
    /// The base integer instructions.
    ///
    I "i",
    /// Multiplication and division.
    ///
    M "m",
    /// Atomics.
    ///
    A "a",
    /// Single-precision floating point.
    ///
    F "f",
    /// Double-precision floating point.
    ///
    D "d",
    Q "q",
    /// Compressed instructions.
    ///
    C "c",
    /// Vectors.
    ///
    V "v",
    /// The hypervisor extension.
    ///
    H "h",
    /// Cleaning and invalidating a cache block.
    ///
    Zicbom "zicbom",
    Zicbop "zicbop",
    /// Zeroing a cache block.
    ///
    Zicboz "zicboz",
    Ziccrse "ziccrse",
    Zicfilp "zicfilp",
    Zicfiss "zicfiss",
    Zicntr "zicntr",
    Zicond "zicond",
    Zicsr "zicsr",
    Zifencei "zifencei",
    Zihintntl "zihintntl",
    Zihintpause "zihintpause",
    Zihpm "zihpm",
    Zimop "zimop",
    Zaamo "zaamo",
    Zabha "zabha",
    /// Atomic compare and swap.
    ///
    Zacas "zacas",
    Zalrsc "zalrsc",
    /// Waiting on a reservation.
    ///
    Zawrs "zawrs",
    Zfa "zfa",
    Zfbfmin "zfbfmin",
    Zfh "zfh",
    Zfhmin "zfhmin",
    Zca "zca",
    Zcb "zcb",
    Zcd "zcd",
    Zcmop "zcmop",
    Zba "zba",
    Zbb "zbb",
    Zbc "zbc",
    Zbkb "zbkb",
    Zbkc "zbkc",
    Zbkx "zbkx",
    Zbs "zbs",
    Zknd "zknd",
    Zkne "zkne",
    Zknh "zknh",
    Zkr "zkr",
    Zkt "zkt",
    Zksed "zksed",
    Zksh "zksh",
    Ztso "ztso",
    Zvbb "zvbb",
    Zvbc "zvbc",
    Zve32f "zve32f",
    Zve32x "zve32x",
    Zve64d "zve64d",
    Zve64f "zve64f",
    Zve64x "zve64x",
    Zvfbfmin "zvfbfmin",
    Zvfbfwma "zvfbfwma",
    Zvfh "zvfh",
    Zvfhmin "zvfhmin",
    Zvkb "zvkb",
    Zvkg "zvkg",
    Zvkned "zvkned",
    Zvknha "zvknha",
    Zvknhb "zvknhb",
    Zvksed "zvksed",
    Zvksh "zvksh",
    Zvkt "zvkt",
    Smaia "smaia",
    Smmpm "smmpm",
    Smnpm "smnpm",
    Smstateen "smstateen",
    /// The supervisor's part of the Advanced Interrupt Architecture.
    ///
    Ssaia "ssaia",
    Sscofpmf "sscofpmf",
    Ssnpm "ssnpm",
    /// A timer comparator that the supervisor sets by itself.
    ///
    Sstc "sstc",
    /// Software sets the Accessed and Dirty bits: an access that needs one set is a page fault.
    ///
    Svade "svade",
    /// The hardware can set the Accessed and Dirty bits.
    ///
    Svadu "svadu",
    /// Fine-grained parts of a fence.
    ///
    Svinval "svinval",
    /// Naturally aligned leaves of a power of two of pages.
    ///
    Svnapot "svnapot",
    /// Memory types in page-table entries.
    ///
    Svpbmt "svpbmt",
    Svrsw60t59b "svrsw60t59b",
    /// New valid entries become visible to all harts in bounded time, without a fence.
    ///
    Svvptc "svvptc",
}

const _: () = assert!(
    Extension::ALL.len() <= u128::BITS as usize,
    "a set is 128 bits"
);

use Extension::*;

const ZKN: Extensions = Extensions::of(&[Zbkb, Zbkc, Zbkx, Zknd, Zkne, Zknh]);
const ZKS: Extensions = Extensions::of(&[Zbkb, Zbkc, Zksed, Zksh]);
const ZVKN: Extensions = Extensions::of(&[Zvkned, Zvknhb, Zvkb, Zvkt]);
const ZVKS: Extensions = Extensions::of(&[Zvksed, Zvksh, Zvkb, Zvkt]);

/// Names that stand for several extensions, but are no extensions themselves.
const BUNDLES: &[(&str, Extensions)] = &[
    ("g", Extensions::of(&[I, M, A, F, D, Zicsr, Zifencei])),
    ("b", Extensions::of(&[Zba, Zbb, Zbs])),
    ("zk", ZKN.with(Zkr).with(Zkt)),
    ("zkn", ZKN),
    ("zks", ZKS),
    ("zvkn", ZVKN),
    ("zvknc", ZVKN.with(Zvbc)),
    ("zvkng", ZVKN.with(Zvkg)),
    ("zvks", ZVKS),
    ("zvksc", ZVKS.with(Zvbc)),
    ("zvksg", ZVKS.with(Zvkg)),
];

/// The extensions that `name` stands for, in any case; none if the name is unknown.
pub(crate) fn named(name: &str) -> Extensions {
    let bundle = BUNDLES
        .iter()
        .find(|(bundle, _)| bundle.eq_ignore_ascii_case(name));
    let known = || {
        Extension::ALL
            .iter()
            .find(|extension| extension.name().eq_ignore_ascii_case(name))
    };
    bundle
        .map(|(_, extensions)| *extensions)
        .or_else(|| known().map(|known| Extensions::of(&[*known])))
        .unwrap_or_default()
}

impl Extension {
    /// The extensions that are parts of this one.
    pub(crate) const fn implied(self) -> Extensions {
        match self {
            A => Extensions::of(&[Zaamo, Zalrsc]),
            D => Extensions::of(&[F]),
            Q => Extensions::of(&[D]),
            C => Extensions::of(&[Zca]),
            V => Extensions::of(&[Zve64d]),
            Zve64d => Extensions::of(&[Zve64f]),
            Zve64f => Extensions::of(&[Zve64x, Zve32f]),
            Zve64x | Zve32f => Extensions::of(&[Zve32x]),
            Zvbb => Extensions::of(&[Zvkb]),
            _ => Extensions::NONE,
        }
    }

    /// The extensions that this one requires.
    pub(crate) const fn needs(self) -> Extensions {
        match self {
            // No existing system has F without D, and Linux does not support it.
            F | Q | V | Zve32f | Zve64f | Zve64d | Zfa | Zfbfmin | Zfh | Zfhmin => {
                Extensions::of(&[D])
            }
            Zcb | Zcmop => Extensions::of(&[Zca]),
            Zcd => Extensions::of(&[Zca, D]),
            Zvfh | Zvfhmin | Zvfbfmin => Extensions::of(&[Zve32f]),
            Zvfbfwma => Extensions::of(&[Zfbfmin, Zvfbfmin]),
            Zve64x | Zvbb | Zvbc | Zvkb | Zvkg | Zvkned | Zvknha | Zvknhb | Zvksed | Zvksh
            | Zvkt => Extensions::of(&[Zve32x]),
            _ => Extensions::NONE,
        }
    }
}
