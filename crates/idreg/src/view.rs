//! ID registers as programs see them.

use crate::register::{self, CTR_EL0, ID_SPACE, MIDR_EL1, MPIDR_EL1, REVIDR_EL1};
use crate::system::show;
use crate::{Enabled, Field, Mrs, Register, System};

/// The value of MPIDR_EL1 at EL0, with only its RES1 bit: the CPU's number is not shown, as on
/// Linux.
pub const MPIDR_AT_EL0: u64 = 1 << 31;

/// The registers that EL0 can read: all with CRm=2..=7, and three with CRm=0.
const READABLE: u64 =
    !0 << (2 * 8) | 1 << MIDR_EL1.index() | 1 << MPIDR_EL1.index() | 1 << REVIDR_EL1.index();

/// The values that programs read from ID registers, computed in advance.
///
/// Each CPU has its own view, since MIDR_EL1 differs between CPUs; everything else is the same. So
/// an emulated read is one load from memory that nobody writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct El0View {
    values: [u64; ID_SPACE],
    cache_type: u64,
}

impl El0View {
    /// The view of a CPU with the MIDR_EL1 `midr`, in a `system` of which the kernel has enabled
    /// the features `enabled`.
    ///
    /// Fields that programs may see have the sanitised value, all others their absent value, as do
    /// features that are not enabled. REVIDR_EL1 reads as zero, as on Linux, since it means nothing
    /// without the MIDR_EL1 of the same CPU.
    pub fn new(system: &System, enabled: Enabled, midr: u64) -> El0View {
        let mut values = [0; ID_SPACE];
        values[MIDR_EL1.index()] = midr;
        values[MPIDR_EL1.index()] = MPIDR_AT_EL0;
        for description in
            register::all().filter(|description| description.register.index() < ID_SPACE)
        {
            if !description.register.is_aarch32() || system.aarch32_el0() {
                let most =
                    |field: &Field| system.shown_to_programs(description.register, field, enabled);
                let value = show(system.value(description.register), description, most);
                values[description.register.index()] = value;
            }
        }
        El0View {
            values,
            cache_type: system.value(CTR_EL0),
        }
    }

    /// The value that `mrs` reads at EL0, or `None` if it is undefined there. Defined are Op0=3,
    /// Op1=0, CRn=0, CRm=2..=7 and MIDR_EL1, MPIDR_EL1, REVIDR_EL1; and CTR_EL0, which traps only
    /// on a CPU whose own value differs from the system's.
    #[inline]
    pub const fn emulate(&self, mrs: Mrs) -> Option<u64> {
        // With Op0=3, Op1=0, CRn=0 and CRm below 8, all but the low 6 bits of the encoding are
        // fixed, and these are the index.
        let (encoding, place) = (mrs.encoding(), mrs.encoding() as usize % ID_SPACE);
        if encoding / ID_SPACE as u16 != 3 << 8 || READABLE >> place & 1 == 0 {
            return self.emulate_cache_type(encoding);
        }
        Some(self.values[place])
    }

    #[cold]
    const fn emulate_cache_type(&self, encoding: u16) -> Option<u64> {
        const CACHE_TYPE: u16 = 3 << 14 | 3 << 11 | 1;
        if encoding == CACHE_TYPE {
            Some(self.cache_type)
        } else {
            None
        }
    }

    /// The value of a register of the ID space; zero for others.
    pub const fn value(&self, register: Register) -> u64 {
        if register.index() < ID_SPACE {
            self.values[register.index()]
        } else {
            0
        }
    }
}
