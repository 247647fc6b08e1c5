//! One field of an ID register.

use crate::Feature;

/// How the values of two CPUs are combined into one that is safe on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The lower value: for most fields, a higher value adds features to those of a lower one.
    Lower,
    /// The higher value: for fields that report a restriction.
    Higher,
    /// The higher value, but zero ("not reported") if either is zero.
    HigherOrZero,
    /// The common value; if the CPUs differ, the field's `absent` value.
    Exact,
}

/// The readers that see the sanitised value; all others see the `absent` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// No readers.
    Never,
    /// All readers.
    Always,
    /// Readers for which the kernel has enabled this feature.
    With(Feature),
    /// All readers, but a value above this one only if the kernel has enabled the feature.
    Beyond(i64, Feature),
}

/// A field of an ID register.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in the Arm ARM, as Linux spells it.
    pub name: &'static str,
    /// The lowest bit.
    pub shift: u8,
    /// The number of bits, 1 to 4.
    pub width: u8,
    /// Whether the value is in two's complement (so that −1 is less than 0).
    pub signed: bool,
    /// How the values of two CPUs are combined.
    pub rule: Rule,
    /// The value that promises nothing, as the field's bits.
    pub absent: u64,
    /// Its visibility for programs.
    pub el0: Visibility,
    /// Its visibility for guests.
    pub guest: Visibility,
}

/// An unsigned 4-bit field for which the lower value is safe and 0 means absent. No reader sees it.
pub(crate) const fn lower(name: &'static str, shift: u8) -> Field {
    Field {
        name,
        shift,
        width: 4,
        signed: false,
        rule: Rule::Lower,
        absent: 0,
        el0: Visibility::Never,
        guest: Visibility::Never,
    }
}

impl Field {
    pub(crate) const fn rule(self, rule: Rule) -> Field {
        Field { rule, ..self }
    }

    pub(crate) const fn width(self, width: u8) -> Field {
        Field { width, ..self }
    }

    pub(crate) const fn signed(self) -> Field {
        Field {
            signed: true,
            ..self
        }
    }

    pub(crate) const fn absent(self, absent: u64) -> Field {
        Field { absent, ..self }
    }

    pub(crate) const fn el0(self) -> Field {
        Field {
            el0: Visibility::Always,
            ..self
        }
    }

    pub(crate) const fn el0_with(self, feature: Feature) -> Field {
        Field {
            el0: Visibility::With(feature),
            ..self
        }
    }

    /// Shows programs values up to `most`, and higher ones only if `feature` is enabled.
    pub(crate) const fn el0_beyond(self, most: i64, feature: Feature) -> Field {
        Field {
            el0: Visibility::Beyond(most, feature),
            ..self
        }
    }

    pub(crate) const fn guest(self) -> Field {
        Field {
            guest: Visibility::Always,
            ..self
        }
    }

    /// Shows the field to programs and guests for which `feature` is enabled.
    pub(crate) const fn with(self, feature: Feature) -> Field {
        Field {
            guest: Visibility::With(feature),
            ..self.el0_with(feature)
        }
    }

    /// The mask of the field's bits in the register.
    pub const fn mask(&self) -> u64 {
        ((1 << self.width) - 1) << self.shift
    }

    /// The field's value in `register`, sign-extended if the field is signed.
    #[inline]
    pub const fn get(&self, register: u64) -> i64 {
        let top = 64 - self.width;
        let aligned = register << (top - self.shift);
        if self.signed {
            aligned as i64 >> top
        } else {
            (aligned >> top) as i64
        }
    }

    /// `register` with the field's bits replaced by the low bits of `value`.
    pub const fn set(&self, register: u64, value: u64) -> u64 {
        register & !self.mask() | value << self.shift & self.mask()
    }

    /// The field value that is safe on two CPUs, one with the register value `a`, the other with
    /// `b`.
    pub const fn safe(&self, a: u64, b: u64) -> u64 {
        let (x, y) = (self.get(a), self.get(b));
        let (low, high) = if x < y { (x, y) } else { (y, x) };
        let safe = match self.rule {
            Rule::Lower => low,
            Rule::Higher => high,
            Rule::HigherOrZero if low == 0 => 0,
            Rule::HigherOrZero => high,
            Rule::Exact if low == high => low,
            Rule::Exact => self.absent as i64,
        };
        safe as u64 & (self.mask() >> self.shift)
    }
}
