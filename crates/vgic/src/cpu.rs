//! The CPU interface's registers as a VMM saves and restores them (Arm IHI 0069, 12.2). They are
//! kept in the hypervisor's form: ICH_VMCR_EL2 and the active priorities.

use crate::vmm::Refused;

const fn encoding(op1: u16, crn: u16, crm: u16, op2: u16) -> u16 {
    3 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}
const PMR: u16 = encoding(0, 4, 6, 0);
const BPR0: u16 = encoding(0, 12, 8, 3);
const AP0R0: u16 = encoding(0, 12, 8, 4);
const AP0R3: u16 = AP0R0 + 3;
const AP1R0: u16 = encoding(0, 12, 9, 0);
const AP1R3: u16 = AP1R0 + 3;
const BPR1: u16 = encoding(0, 12, 12, 3);
const CTLR: u16 = encoding(0, 12, 12, 4);
const SRE: u16 = encoding(0, 12, 12, 5);
const IGRPEN0: u16 = encoding(0, 12, 12, 6);
const IGRPEN1: u16 = encoding(0, 12, 12, 7);

/// A field of ICH_VMCR_EL2: its lowest bit, and its maximum value.
#[derive(Clone, Copy)]
struct Field(u32, u64);
const ENABLE_0: Field = Field(0, 1);
const ENABLE_1: Field = Field(1, 1);
const COMMON: Field = Field(4, 1);
const SPLIT_END: Field = Field(9, 1);
const POINT_1: Field = Field(18, 7);
const POINT_0: Field = Field(21, 7);
const MASK: Field = Field(24, 0xff);

/// ICC_SRE_EL1: the interface is accessed only through system registers.
const SYSTEM_REGISTERS: u64 = 0b111;

/// What the hardware supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The number of bits in a priority.
    pub priority_bits: u64,
    /// The number of bits in an interrupt number, encoded as in ICC_CTLR_EL1.IDbits.
    pub number_bits: u64,
    /// SEIS and A3V at their positions in ICC_CTLR_EL1.
    pub others: u64,
}

/// ICC_CTLR_EL1.
const PRIORITY_BITS: u32 = 8;
const NUMBER_BITS: u32 = 11;
/// A field of [`Limits::others`].
const OTHERS: u64 = 0b11 << 14;

/// One virtual CPU's interface.
#[derive(Clone, Debug, Default)]
pub struct CpuInterface {
    /// ICH_VMCR_EL2: the guest's control registers.
    pub control: u64,
    /// ICH_AP0R<n>_EL2 and ICH_AP1R<n>_EL2: active priorities.
    pub active: [[u64; 4]; 2],
    limits: Limits,
}

impl CpuInterface {
    /// The interface at reset, on hardware with these limits.
    pub fn new(limits: Limits) -> Self {
        CpuInterface {
            limits,
            ..Default::default()
        }
    }

    /// Whether a register with this encoding exists (the fields from op0 on, as in MRS).
    pub fn has(register: u16) -> bool {
        matches!(register, PMR | BPR0 | AP0R0..=AP0R3 | AP1R0..=AP1R3 | BPR1..=IGRPEN1)
    }

    /// Reads a register.
    pub fn get(&mut self, register: u16) -> Result<u64, Refused> {
        Ok(match register {
            PMR => self.field(MASK),
            BPR0 => self.field(POINT_0),
            BPR1 if self.field(COMMON) != 0 => (self.field(POINT_0) + 1).min(7),
            BPR1 => self.field(POINT_1),
            CTLR => {
                let Limits {
                    priority_bits,
                    number_bits,
                    others,
                } = self.limits;
                self.field(COMMON)
                    | self.field(SPLIT_END) << 1
                    | priority_bits.saturating_sub(1) << PRIORITY_BITS
                    | number_bits << NUMBER_BITS
                    | others
            }
            SRE => SYSTEM_REGISTERS,
            IGRPEN0 => self.field(ENABLE_0),
            IGRPEN1 => self.field(ENABLE_1),
            _ => *self.priorities(register)?,
        })
    }

    /// Writes a register.
    pub fn set(&mut self, register: u16, value: u64) -> Result<(), Refused> {
        match register {
            PMR => self.set_field(MASK, value),
            BPR0 => self.set_field(POINT_0, value),
            BPR1 if self.field(COMMON) != 0 => {}
            BPR1 => self.set_field(POINT_1, value),
            CTLR => {
                let wanted = Limits {
                    priority_bits: (value >> PRIORITY_BITS & 7) + 1,
                    number_bits: value >> NUMBER_BITS & 7,
                    others: value & OTHERS,
                };
                if wanted.priority_bits > self.limits.priority_bits
                    || wanted.number_bits > self.limits.number_bits
                    || wanted.others != self.limits.others
                {
                    return Err(Refused::Invalid);
                }
                self.limits = wanted;
                self.set_field(COMMON, value);
                self.set_field(SPLIT_END, value >> 1);
            }
            SRE if value & 1 == 0 => return Err(Refused::Invalid),
            SRE => {}
            IGRPEN0 => self.set_field(ENABLE_0, value),
            IGRPEN1 => self.set_field(ENABLE_1, value),
            _ => *self.priorities(register)? = value & u64::from(u32::MAX),
        }
        Ok(())
    }

    /// The active priorities register with an encoding; there are as many as the priorities need.
    fn priorities(&mut self, register: u16) -> Result<&mut u64, Refused> {
        let (group, at) = match register {
            AP0R0..=AP0R3 => (0, register - AP0R0),
            AP1R0..=AP1R3 => (1, register - AP1R0),
            _ => return Err(Refused::Absent),
        };
        let last = match self.limits.priority_bits {
            7.. => 3,
            6 => 1,
            _ => 0,
        };
        if at > last {
            return Err(Refused::Invalid);
        }
        Ok(&mut self.active[group][usize::from(at)])
    }

    fn field(&self, Field(at, most): Field) -> u64 {
        self.control >> at & most
    }

    fn set_field(&mut self, Field(at, most): Field, value: u64) {
        self.control = self.control & !(most << at) | (value & most) << at;
    }
}
