//! The system's features, from the registers of each CPU.

use core::fmt;

use crate::errata::Errata;
use crate::register::{self, COUNT, ID_AA64PFR0_EL1, MIDR_EL1, Place, REVIDR_EL1, place};
use crate::store_bypass::SSBS;
use crate::{Description, Enabled, Field, Register, StoreBypass, Visibility};

/// The registers of one CPU, as that CPU reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    values: [u64; COUNT],
}

impl Raw {
    /// All registers zero; the kernel fills in the values that it reads.
    pub const fn new() -> Raw {
        Raw { values: [0; COUNT] }
    }

    /// Sets the value of `register`.
    pub const fn set(&mut self, register: Register, value: u64) {
        self.values[register.index()] = value;
    }

    /// The value of `register`.
    pub const fn get(&self, register: Register) -> u64 {
        self.values[register.index()]
    }

    /// The value of `register` as the kernel uses it. The AArch32 registers of a CPU without
    /// AArch32 are UNKNOWN and count as zero.
    fn visible(&self, register: Register) -> u64 {
        const EL0: Place = place(ID_AA64PFR0_EL1, "EL0");
        let aarch32 = EL0.field.get(self.get(EL0.register)) >= 2;
        if register.is_aarch32() && !aarch32 {
            0
        } else {
            self.get(register)
        }
    }

    fn errata(&self) -> Errata {
        Errata::of(self.get(MIDR_EL1), self.get(REVIDR_EL1))
    }
}

impl Default for Raw {
    fn default() -> Raw {
        Raw::new()
    }
}

/// The sanitised registers, whose values are safe on every CPU folded in so far.
///
/// The order of CPUs does not matter, and folding in the same CPU twice changes nothing. All CPUs
/// are folded in before programs run; a CPU that comes later must pass [`admit`](System::admit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    values: [u64; COUNT],
    errata: Errata,
    store_bypass: StoreBypass,
    empty: bool,
}

/// A promised feature that a CPU lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The register's name.
    pub register: &'static str,
    /// The field's name.
    pub field: &'static str,
    /// The sanitised value, sign-extended if the field is signed.
    pub promised: i64,
    /// The CPU's value, sign-extended if the field is signed.
    pub found: i64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{} is {}, but {} was promised",
            self.register, self.field, self.found, self.promised
        )
    }
}

impl System {
    /// No CPU yet. Every field reads as zero until the first one is folded in.
    pub const fn new() -> System {
        System {
            values: [0; COUNT],
            errata: Errata::NONE,
            store_bypass: StoreBypass::Unaffected,
            empty: true,
        }
    }

    /// Folds `cpu` in: each field keeps a value that is safe on all CPUs so far.
    pub fn fold(&mut self, cpu: &Raw) {
        for (description, field) in fields() {
            let visible = cpu.visible(description.register);
            let value = &mut self.values[description.register.index()];
            let before = if self.empty { visible } else { *value };
            *value = field.set(*value, field.safe(before, visible));
        }
        self.errata = self.errata.with(cpu.errata());
        self.store_bypass = self.store_bypass.max(StoreBypass::of(cpu));
        self.empty = false;
    }

    /// Checks that a CPU that comes up later keeps all promises: folding it in would change
    /// nothing. If not, the CPU must not come online.
    pub fn admit(&self, cpu: &Raw) -> Result<(), Missing> {
        for (description, field) in fields() {
            let (promised, visible) = (
                self.value(description.register),
                cpu.visible(description.register),
            );
            if field.set(promised, field.safe(promised, visible)) != promised {
                return Err(Missing {
                    register: description.name,
                    field: field.name,
                    promised: field.get(promised),
                    found: field.get(visible),
                });
            }
        }
        if StoreBypass::of(cpu) > self.store_bypass {
            return Err(Missing {
                register: register::name(SSBS.register),
                field: SSBS.field.name,
                promised: 1,
                found: SSBS.field.get(cpu.get(SSBS.register)),
            });
        }
        // Programs have seen a feature that an erratum of the late CPU breaks.
        match self.errata.missing(cpu.errata()).hidden().next() {
            None => Ok(()),
            Some(place) => Err(Missing {
                register: register::name(place.register),
                field: place.field.name,
                promised: self.field(*place),
                found: place.field.get(place.field.set(0, place.field.absent)),
            }),
        }
    }

    /// The highest value of a field of `register` that programs see, if the kernel has enabled
    /// `enabled`; None if the field is hidden from them, which may be because of an erratum.
    pub(crate) fn shown_to_programs(
        &self,
        register: Register,
        field: &Field,
        enabled: Enabled,
    ) -> Option<i64> {
        let is_this =
            |place: &Place| place.register == register && place.field.shift == field.shift;
        let hidden = self.errata.hidden().any(is_this);
        self.shown(field.el0, enabled).filter(|_| !hidden)
    }

    /// What programs can do about speculative store bypass.
    pub const fn store_bypass(&self) -> StoreBypass {
        self.store_bypass
    }

    /// The sanitised value of a register.
    #[inline]
    pub const fn value(&self, register: Register) -> u64 {
        self.values[register.index()]
    }

    /// The value that a guest with the features `enabled` reads from `register`: the sanitised
    /// value of the fields that it sees, and the absent value of others. It lacks the features that
    /// a virtual machine adds itself (its GIC, its IPA size).
    pub fn guest_value(&self, register: Register, enabled: Enabled) -> u64 {
        let described = register::all().find(|description| description.register == register);
        described.map_or(0, |description| {
            let most = |field: &Field| self.shown(field.guest, enabled);
            show(self.value(register), description, most)
        })
    }

    /// The highest value of a field with this visibility that a reader with the features `enabled`
    /// sees; None if it is hidden.
    const fn shown(&self, visibility: Visibility, enabled: Enabled) -> Option<i64> {
        match visibility {
            Visibility::Never => None,
            Visibility::Always => Some(i64::MAX),
            Visibility::With(feature) | Visibility::Beyond(_, feature)
                if enabled.has(feature) && self.has(feature) =>
            {
                Some(i64::MAX)
            }
            Visibility::With(_) => None,
            Visibility::Beyond(most, _) => Some(most),
        }
    }

    #[inline]
    pub(crate) const fn field(&self, place: Place) -> i64 {
        place.field.get(self.value(place.register))
    }
}

impl Default for System {
    fn default() -> System {
        System::new()
    }
}

/// `value` with each field limited to what `most` returns, and hidden fields absent.
pub(crate) fn show(
    value: u64,
    description: &Description,
    most: impl Fn(&Field) -> Option<i64>,
) -> u64 {
    let fields = description.fields.iter();
    fields.fold(value, |value, field| match most(field) {
        Some(most) => field.set(value, field.get(value).min(most) as u64),
        None => field.set(value, field.absent),
    })
}

fn fields() -> impl Iterator<Item = (&'static Description, &'static Field)> {
    register::all().flat_map(|description| {
        description
            .fields
            .iter()
            .map(move |field| (description, field))
    })
}
