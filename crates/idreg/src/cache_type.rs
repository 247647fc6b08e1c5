//! CTR_EL0, which programs read directly unless it traps, and its promises about caches.

use crate::register::{self, CTR_EL0, place};
use crate::{Field, System};

const IDC: Field = place(CTR_EL0, "IDC").field;
const POLICY: Field = place(CTR_EL0, "L1Ip").field;

/// CLIDR_EL1.LoUIS, LoC and LoUU: the levels of unification and of coherence.
const UNIFICATION_INNER: u32 = 21;
const COHERENCE: u32 = 24;
const UNIFICATION: u32 = 27;

/// The CTR_EL0 value that describes a CPU with the given CTR_EL0 (`cache_type`) and CLIDR_EL1
/// (`levels`). If its levels of coherence and unification are 0, data need not be cleaned for
/// instruction fetches to see it, even if CTR_EL0.IDC is clear (Arm ARM, "CTR_EL0").
pub const fn effective_cache_type(cache_type: u64, levels: u64) -> u64 {
    let unified = levels >> UNIFICATION_INNER & 7 == 0 && levels >> UNIFICATION & 7 == 0;
    if unified || levels >> COHERENCE & 7 == 0 {
        IDC.set(cache_type, 1)
    } else {
        cache_type
    }
}

impl System {
    /// Whether reads of CTR_EL0 must trap on a CPU with the value `raw`, because the system's value
    /// differs. A difference only in the instruction cache policy does not matter to programs.
    pub fn misreports_cache_type(&self, raw: u64) -> bool {
        let described = register::all().find(|description| description.register == CTR_EL0);
        let fields = described
            .into_iter()
            .flat_map(|description| description.fields);
        let told = fields.fold(0, |mask, field| mask | field.mask()) & !POLICY.mask();
        (self.value(CTR_EL0) ^ raw) & told != 0
    }
}
