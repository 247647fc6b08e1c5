//! Fields that a boot parameter overrides for one CPU, so that the CPUs of an emulator differ.

use core::fmt;

use crate::register;
use crate::{Field, Raw};

/// Why an override is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no register and field of this name (`REGISTER.FIELD`).
    Unknown,
    /// The value is not a valid number for the field.
    Value,
    /// The CPU lacks the features that the value promises; this is its own value.
    Lacking(i64),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown => f.write_str("no field of an ID register"),
            Refused::Value => f.write_str("no value of this field"),
            Refused::Lacking(own) => write!(f, "it has only {own}"),
        }
    }
}

impl Raw {
    /// Sets the field `name` (such as `ID_AA64MMFR1_EL1.HAFDBS`) to a `value` that promises no more
    /// than the CPU's own: a decimal number, which may be negative for a signed field, or
    /// hexadecimal after `0x`.
    ///
    /// # Errors
    /// [`Refused`]; then nothing is changed.
    pub fn restrict(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let (register, field) = find(name).ok_or(Refused::Unknown)?;
        let wanted = parse(field, value).ok_or(Refused::Value)?;
        let own = self.get(register);
        let changed = field.set(own, wanted);
        if field.safe(own, changed) != wanted {
            return Err(Refused::Lacking(field.get(own)));
        }
        self.set(register, changed);
        Ok(())
    }
}

fn find(name: &str) -> Option<(register::Register, &'static Field)> {
    let (register, field) = name.split_once('.')?;
    let described = register::all().find(|description| description.name == register)?;
    let field = described.fields.iter().find(|known| known.name == field)?;
    Some((described.register, field))
}

/// Parses a number into the field's bits.
fn parse(field: &Field, text: &str) -> Option<u64> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    let bits = field.set(0, number as u64);
    (field.get(bits) == number).then(|| bits >> field.shift)
}

#[cfg(test)]
mod tests {
    use super::Refused;
    use crate::Raw;
    use crate::register::{CTR_EL0, ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1};

    #[test]
    fn a_field_promises_less_never_more() {
        let mut raw = Raw::new();
        raw.set(ID_AA64MMFR1_EL1, 0x1012);
        assert_eq!(raw.restrict("ID_AA64MMFR1_EL1.HAFDBS", "0x1"), Ok(()));
        assert_eq!(raw.get(ID_AA64MMFR1_EL1), 0x1011);
        let more = raw.restrict("ID_AA64MMFR1_EL1.HAFDBS", "2");
        assert_eq!(more, Err(Refused::Lacking(1)));
        assert_eq!(raw.get(ID_AA64MMFR1_EL1), 0x1011);
    }

    /// TGran4: -1 means absent, 0 present.
    #[test]
    fn signed_fields_take_negative_numbers() {
        let mut raw = Raw::new();
        assert_eq!(raw.restrict("ID_AA64MMFR0_EL1.TGRAN4", "-1"), Ok(()));
        assert_eq!(raw.get(ID_AA64MMFR0_EL1), 0xf000_0000);
        let more = raw.restrict("ID_AA64MMFR0_EL1.TGRAN4", "0");
        assert_eq!(more, Err(Refused::Lacking(-1)));
    }

    /// The larger cache granule is the safe one.
    #[test]
    fn what_is_safe_may_be_more() {
        let mut raw = Raw::new();
        raw.set(CTR_EL0, 4 << 24 | 4 << 16);
        assert_eq!(raw.restrict("CTR_EL0.CWG", "5"), Ok(()));
        assert_eq!(
            raw.restrict("CTR_EL0.DminLine", "5"),
            Err(Refused::Lacking(4))
        );
    }

    #[test]
    fn what_is_no_field_or_no_number_is_refused() {
        let mut raw = Raw::new();
        for name in ["", "ID_AA64MMFR1_EL1", "ID_AA64MMFR1_EL1.NONE", "X.HAFDBS"] {
            assert_eq!(raw.restrict(name, "0"), Err(Refused::Unknown), "{name}");
        }
        for value in ["", "16", "-1", "0x", "0x10", "one", "99999999999999999999"] {
            let refused = raw.restrict("ID_AA64MMFR1_EL1.HAFDBS", value);
            assert_eq!(refused, Err(Refused::Value), "{value}");
        }
        assert_eq!(raw, Raw::new());
    }
}
