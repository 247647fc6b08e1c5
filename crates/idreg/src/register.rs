//! The list of registers, and where their values are kept.

use crate::{Field, aarch32, aarch64};

/// A register known to this crate, as an index into the values of a CPU.
///
/// The ID space Op0=3, Op1=0, CRn=0, CRm=0..=7 has the first 64 indices (CRm × 8 + Op2). Two
/// registers follow that EL0 may read directly, but that must be sanitised too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

/// The number of registers.
pub const COUNT: usize = 66;
/// The number of registers in the ID space.
pub const ID_SPACE: usize = 64;

impl Register {
    /// The register Op0=3, Op1=0, CRn=0 with these fields; only the low 3 bits of each count.
    pub const fn id(crm: u8, op2: u8) -> Register {
        Register(crm % 8 * 8 + op2 % 8)
    }

    /// Its index into the values of a CPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// CRm of a register in the ID space.
    pub const fn crm(self) -> u8 {
        self.0 / 8
    }

    /// Op2 of a register in the ID space.
    pub const fn op2(self) -> u8 {
        self.0 % 8
    }

    /// Whether the register describes AArch32; then its value is UNKNOWN on a CPU without AArch32.
    pub const fn is_aarch32(self) -> bool {
        matches!(self.crm(), 1..=3)
    }
}

/// A register and its fields. Bits that are in no field always read as zero.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The register.
    pub register: Register,
    /// Its name in the Arm ARM.
    pub name: &'static str,
    /// Its fields, from the highest down.
    pub fields: &'static [Field],
}

/// Declares the registers of the ID space as constants.
macro_rules! id_registers {
    ($($name:ident $crm:literal $op2:literal)*) => {
        $(
            #[doc = concat!("CRm=", $crm, ", Op2=", $op2, ".")]
            pub const $name: Register = Register::id($crm, $op2);
        )*
    };
}

id_registers! {
    MIDR_EL1 0 0 MPIDR_EL1 0 5 REVIDR_EL1 0 6
    ID_PFR0_EL1 1 0 ID_PFR1_EL1 1 1 ID_DFR0_EL1 1 2
    ID_MMFR0_EL1 1 4 ID_MMFR1_EL1 1 5 ID_MMFR2_EL1 1 6 ID_MMFR3_EL1 1 7
    ID_ISAR0_EL1 2 0 ID_ISAR1_EL1 2 1 ID_ISAR2_EL1 2 2 ID_ISAR3_EL1 2 3
    ID_ISAR4_EL1 2 4 ID_ISAR5_EL1 2 5 ID_MMFR4_EL1 2 6 ID_ISAR6_EL1 2 7
    MVFR0_EL1 3 0 MVFR1_EL1 3 1 MVFR2_EL1 3 2 ID_PFR2_EL1 3 4 ID_DFR1_EL1 3 5 ID_MMFR5_EL1 3 6
    ID_AA64PFR0_EL1 4 0 ID_AA64PFR1_EL1 4 1 ID_AA64PFR2_EL1 4 2
    ID_AA64ZFR0_EL1 4 4 ID_AA64SMFR0_EL1 4 5 ID_AA64FPFR0_EL1 4 7
    ID_AA64DFR0_EL1 5 0 ID_AA64DFR1_EL1 5 1
    ID_AA64ISAR0_EL1 6 0 ID_AA64ISAR1_EL1 6 1 ID_AA64ISAR2_EL1 6 2 ID_AA64ISAR3_EL1 6 3
    ID_AA64MMFR0_EL1 7 0 ID_AA64MMFR1_EL1 7 1 ID_AA64MMFR2_EL1 7 2 ID_AA64MMFR3_EL1 7 3 ID_AA64MMFR4_EL1 7 4
}

/// Op0=3, Op1=3, CRn=0, CRm=0, Op2=1: cache lines.
pub const CTR_EL0: Register = Register(64);
/// Op0=3, Op1=3, CRn=0, CRm=0, Op2=7: the block size of DC ZVA.
pub const DCZID_EL0: Register = Register(65);

/// All registers that have fields.
pub fn all() -> impl Iterator<Item = &'static Description> {
    aarch64::REGISTERS.iter().chain(aarch32::REGISTERS)
}

/// The name of a register that has fields.
pub(crate) fn name(register: Register) -> &'static str {
    let described = all().find(|description| description.register == register);
    described.map_or("", |description| description.name)
}

/// A field and the register that it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub register: Register,
    pub field: Field,
}

/// The field `name` of `register`. If either is wrong, evaluation at compile time fails.
pub(crate) const fn place(register: Register, name: &str) -> Place {
    let tables = [aarch64::REGISTERS, aarch32::REGISTERS];
    let mut table = 0;
    while table < tables.len() {
        let mut at = 0;
        while at < tables[table].len() {
            let description = &tables[table][at];
            if description.register.0 == register.0 {
                let mut field = 0;
                while field < description.fields.len() {
                    if same(description.fields[field].name, name) {
                        return Place {
                            register,
                            field: description.fields[field],
                        };
                    }
                    field += 1;
                }
            }
            at += 1;
        }
        table += 1;
    }
    panic!("no such field")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}
