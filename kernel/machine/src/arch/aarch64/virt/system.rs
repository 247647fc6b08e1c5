//! A guest's system registers that the hardware holds while it runs. At EL2 with E2H, the EL1
//! registers are accessed by the names that end in EL12 and EL02 (Arm ARM, "Virtualization Host
//! Extensions"), written here by their encodings.

use core::arch::asm;

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The encoding of a system register in instructions: op0, op1, CRn, CRm, op2 from bit 14 down.
pub const fn encoding(op0: u16, op1: u16, crn: u16, crm: u16, op2: u16) -> u16 {
    op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

/// A set of registers that the hardware holds, each with the name for the kernel's accesses, its
/// encoding in a guest, and its reset value.
macro_rules! registers {
    ($(#[$doc:meta])* $set:ident by $names:ident: $($name:ident $access:literal ($($part:literal),*) $reset:literal;)*) => {
        /// The registers of the set.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        #[repr(usize)]
        pub enum $names { $($name),* }

        $(#[$doc])*
        #[derive(Clone, FromBytes, IntoBytes, Immutable)]
        #[repr(transparent)]
        pub struct $set([u64; Self::ENCODINGS.len()]);

        impl $set {
            /// The guest's encodings of the registers, in order.
            pub const ENCODINGS: &[u16] = &[$(encoding($($part),*)),*];

            /// The reset values.
            pub const RESET: Self = Self([$($reset),*]);

            /// Loads the registers into this CPU.
            pub(in super::super) fn load(&self) {
                $(
                    // SAFETY: registers of EL1 and EL0, neither of which runs; the program's thread
                    // pointer was saved.
                    unsafe { asm!(concat!("msr ", $access, ", {}"), in(reg) self.0[$names::$name as usize], options(nostack, preserves_flags)) };
                )*
            }

            /// Saves the registers from this CPU.
            pub(super) fn save(&mut self) {
                $(
                    // SAFETY: reads a register.
                    unsafe { asm!(concat!("mrs {}, ", $access), out(reg) self.0[$names::$name as usize], options(nostack, preserves_flags)) };
                )*
            }

            /// The value of the register with this encoding in a guest.
            pub fn by_encoding(&mut self, encoding: u16) -> Option<&mut u64> {
                let at = Self::ENCODINGS.iter().position(|known| *known == encoding)?;
                Some(&mut self.0[at])
            }
        }
    };
}

// Reset values are those of Linux's KVM: zero where unknown; SCTLR_EL1 has its RES1 bits.
registers! {
    /// The values of a guest's system registers.
    System by Name:
    Csselr "S3_2_C0_C0_0" (3, 2, 0, 0, 0) 0;
    Sctlr "S3_5_C1_C0_0" (3, 0, 1, 0, 0) 0x00c5_0078;
    Cpacr "S3_5_C1_C0_2" (3, 0, 1, 0, 2) 0;
    Ttbr0 "S3_5_C2_C0_0" (3, 0, 2, 0, 0) 0;
    Ttbr1 "S3_5_C2_C0_1" (3, 0, 2, 0, 1) 0;
    Tcr "S3_5_C2_C0_2" (3, 0, 2, 0, 2) 0;
    Spsr "S3_5_C4_C0_0" (3, 0, 4, 0, 0) 0;
    Elr "S3_5_C4_C0_1" (3, 0, 4, 0, 1) 0;
    Sp "S3_4_C4_C1_0" (3, 4, 4, 1, 0) 0;
    Afsr0 "S3_5_C5_C1_0" (3, 0, 5, 1, 0) 0;
    Afsr1 "S3_5_C5_C1_1" (3, 0, 5, 1, 1) 0;
    Esr "S3_5_C5_C2_0" (3, 0, 5, 2, 0) 0;
    Far "S3_5_C6_C0_0" (3, 0, 6, 0, 0) 0;
    Par "S3_0_C7_C4_0" (3, 0, 7, 4, 0) 0;
    Mair "S3_5_C10_C2_0" (3, 0, 10, 2, 0) 0;
    Amair "S3_5_C10_C3_0" (3, 0, 10, 3, 0) 0;
    Vbar "S3_5_C12_C0_0" (3, 0, 12, 0, 0) 0;
    ContextId "S3_5_C13_C0_1" (3, 0, 13, 0, 1) 0;
    Tpidr1 "S3_0_C13_C0_4" (3, 0, 13, 0, 4) 0;
    Tpidr0 "S3_3_C13_C0_2" (3, 3, 13, 0, 2) 0;
    TpidrReadOnly "S3_3_C13_C0_3" (3, 3, 13, 0, 3) 0;
    Cntkctl "S3_5_C14_C1_0" (3, 0, 14, 1, 0) 0;
    TimerDeadline "S3_5_C14_C3_2" (3, 3, 14, 3, 2) 0;
    TimerControl "S3_5_C14_C3_1" (3, 3, 14, 3, 1) 0;
    PhysicalDeadline "S3_5_C14_C2_2" (3, 3, 14, 2, 2) 0;
    PhysicalControl "S3_5_C14_C2_1" (3, 3, 14, 2, 1) 0;
}

registers! {
    /// The keys of pointer authentication of a guest or a program.
    Keys by Key:
    InstructionALow "S3_0_C2_C1_0" (3, 0, 2, 1, 0) 0;
    InstructionAHigh "S3_0_C2_C1_1" (3, 0, 2, 1, 1) 0;
    InstructionBLow "S3_0_C2_C1_2" (3, 0, 2, 1, 2) 0;
    InstructionBHigh "S3_0_C2_C1_3" (3, 0, 2, 1, 3) 0;
    DataALow "S3_0_C2_C2_0" (3, 0, 2, 2, 0) 0;
    DataAHigh "S3_0_C2_C2_1" (3, 0, 2, 2, 1) 0;
    DataBLow "S3_0_C2_C2_2" (3, 0, 2, 2, 2) 0;
    DataBHigh "S3_0_C2_C2_3" (3, 0, 2, 2, 3) 0;
    GenericLow "S3_0_C2_C3_0" (3, 0, 2, 3, 0) 0;
    GenericHigh "S3_0_C2_C3_1" (3, 0, 2, 3, 1) 0;
}

/// Whether a register is one of EL1's translation, whose writes HCR_EL2.TVM traps.
pub fn is_translation(register: u16) -> bool {
    const ALL: [Name; 11] = [
        Name::Sctlr,
        Name::Ttbr0,
        Name::Ttbr1,
        Name::Tcr,
        Name::Esr,
        Name::Far,
        Name::Afsr0,
        Name::Afsr1,
        Name::Mair,
        Name::Amair,
        Name::ContextId,
    ];
    let encodings = ALL.map(|name| System::ENCODINGS[name as usize]);
    encodings.contains(&register)
}

impl System {
    /// The value of a register while no CPU holds it.
    pub fn get(&self, name: Name) -> u64 {
        self.0[name as usize]
    }

    /// Sets the value of a register while no CPU holds it.
    pub fn set(&mut self, name: Name, value: u64) {
        self.0[name as usize] = value;
    }
}
