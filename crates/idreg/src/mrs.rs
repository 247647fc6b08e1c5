//! Decodes reads of system registers, from instruction words and from exception syndromes.

/// A read of a system register: `MRS X<rt>, S<op0>_<op1>_C<crn>_C<crm>_<op2>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mrs {
    /// 2 (debug) or 3.
    pub op0: u8,
    /// 0 to 7.
    pub op1: u8,
    /// 0 to 15.
    pub crn: u8,
    /// 0 to 15.
    pub crm: u8,
    /// 0 to 7.
    pub op2: u8,
    /// The destination; 31 discards the value.
    pub rt: u8,
}

impl Mrs {
    /// Decodes an A64 instruction word (Arm ARM, MRS: `1101 0101 0011 o0 op1 CRn CRm op2 Rt`). The
    /// caller must not pass an A32 or T32 word, which could look like one.
    #[inline]
    pub const fn from_instruction(word: u32) -> Option<Mrs> {
        if word & 0xfff0_0000 != 0xd530_0000 {
            return None;
        }
        Some(Mrs {
            op0: 2 + (word >> 19 & 1) as u8,
            op1: (word >> 16 & 7) as u8,
            crn: (word >> 12 & 15) as u8,
            crm: (word >> 8 & 15) as u8,
            op2: (word >> 5 & 7) as u8,
            rt: (word & 31) as u8,
        })
    }

    /// Decodes the ISS of an exception of class 0x18, "trapped MSR, MRS or System instruction" (Arm
    /// ARM, ESR_EL1, "ISS encoding for an exception from MSR, MRS, or System instruction execution
    /// in AArch64 state"). A write (Direction 0) and a System instruction (Op0 1) are not reads of
    /// a register.
    #[inline]
    pub const fn from_iss(iss: u32) -> Option<Mrs> {
        let op0 = (iss >> 20 & 3) as u8;
        if iss & 1 == 0 || op0 < 2 {
            return None;
        }
        Some(Mrs {
            op0,
            op1: (iss >> 14 & 7) as u8,
            crn: (iss >> 10 & 15) as u8,
            crm: (iss >> 1 & 15) as u8,
            op2: (iss >> 17 & 7) as u8,
            rt: (iss >> 5 & 31) as u8,
        })
    }

    /// The register in the 16 bits of the instruction: Op0, Op1, CRn, CRm, Op2 from the highest
    /// down. KVM's register numbers contain it too (`KVM_REG_ARM64_SYSREG`).
    #[inline]
    pub const fn encoding(self) -> u16 {
        let (op0, op1, crn) = (
            self.op0 as u16 & 3,
            self.op1 as u16 & 7,
            self.crn as u16 & 15,
        );
        op0 << 14 | op1 << 11 | crn << 7 | (self.crm as u16 & 15) << 3 | self.op2 as u16 & 7
    }

    /// The instruction word of this read.
    #[inline]
    pub const fn to_instruction(self) -> u32 {
        0xd530_0000 | (self.encoding() as u32) << 5 | self.rt as u32 & 31
    }
}
