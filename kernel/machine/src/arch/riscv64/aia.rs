//! The Advanced Interrupt Architecture: an APLIC that converts wired interrupts to messages, and
//! the harts' IMSICs that receive them; or only an APLIC, which interrupts harts directly (RISC-V
//! Advanced Interrupt Architecture 1.0, chapters 3 and 4).

use core::arch::asm;

use super::mmio::Registers;

/// Register offsets of an APLIC domain in bytes (section 4.5).
mod offset {
    pub const DOMAIN: usize = 0;
    /// Configuration of source 1.
    pub const SOURCE: usize = 4;
    pub const SET_ENABLE: usize = 0x1edc;
    pub const SET_PENDING: usize = 0x2000;
    /// Target of source 1.
    pub const TARGET: usize = 0x3004;
    /// Interrupt delivery control of hart index 0 (section 4.8).
    pub const DELIVERY: usize = 0x4000;
    pub const DELIVERY_STRIDE: usize = 32;
    pub const THRESHOLD: usize = 0x08;
    pub const CLAIM: usize = 0x1c;
}

/// `domaincfg`: interrupts enabled.
const DOMAIN_ON: u32 = 1 << 8;
/// `domaincfg`: message-signaled delivery.
const BY_MESSAGE: u32 = 1 << 2;
/// `target` with direct delivery: the interrupt's priority.
const PRIORITY: u32 = 1;
/// `sourcecfg`: level-sensitive, active high.
const LEVEL_HIGH: u32 = 6;
/// The position of the hart index in `target`.
const TARGET_HART: u32 = 18;

/// Registers selected by `siselect` (section 3.8).
mod indirect {
    pub const DELIVERY: usize = 0x70;
    pub const THRESHOLD: usize = 0x72;
    /// 64 enable bits in each even-numbered one.
    pub const ENABLE: usize = 0xc0;
}

/// The delivery mode of a domain's interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// As messages to IMSICs.
    Message,
    /// Directly, by a wire to each hart.
    Direct,
}

/// An APLIC domain, and the index of the hart that gets its interrupts.
pub struct Aia {
    registers: Registers,
    delivery: Delivery,
    hart: u32,
}

impl Aia {
    /// Enables interrupts to this hart, whose index is `hart`.
    pub fn new(registers: Registers, delivery: Delivery, hart: u32) -> Self {
        let aia = Aia {
            registers,
            delivery,
            hart,
        };
        match delivery {
            Delivery::Message => {
                write_indirect(indirect::THRESHOLD, 0);
                write_indirect(indirect::DELIVERY, 1);
                registers.write(offset::DOMAIN, DOMAIN_ON | BY_MESSAGE);
            }
            Delivery::Direct => {
                registers.write(aia.own_delivery() + offset::THRESHOLD, 0);
                registers.write(aia.own_delivery(), 1);
                registers.write(offset::DOMAIN, DOMAIN_ON);
            }
        }
        aia
    }

    /// The delivery control of this hart, for direct delivery.
    fn own_delivery(&self) -> usize {
        offset::DELIVERY + self.hart as usize * offset::DELIVERY_STRIDE
    }

    /// Enables source `source`; with message delivery, as message `source`.
    pub fn enable(&self, source: u32) {
        let index = (source as usize - 1) * size_of::<u32>();
        self.registers.write(offset::SOURCE + index, LEVEL_HIGH);
        let what = match self.delivery {
            Delivery::Message => {
                let word = indirect::ENABLE + source as usize / 64 * 2;
                write_indirect(word, read_indirect(word) | 1 << (source % 64));
                source
            }
            Delivery::Direct => PRIORITY,
        };
        self.registers
            .write(offset::TARGET + index, self.hart << TARGET_HART | what);
        self.registers.write(offset::SET_ENABLE, source);
    }

    /// Claims the next pending source.
    pub fn claim(&self) -> Option<u32> {
        let top = match self.delivery {
            Delivery::Message => take_message(),
            Delivery::Direct => self.registers.read(self.own_delivery() + offset::CLAIM),
        };
        Some(top >> 16).filter(|&source| source != 0)
    }

    /// Completes source `source`: if its wire is still high, this sends another message (section
    /// 4.9.2). With direct delivery it has stayed pending (section 4.7).
    pub fn complete(&self, source: u32) {
        if self.delivery == Delivery::Message {
            self.registers.write(offset::SET_PENDING, source);
        }
    }
}

/// Claims the top message of this hart's interrupt file; 0 if there is none (section 3.10,
/// `stopei`).
fn take_message() -> u32 {
    let top: usize;
    // SAFETY: claims a message of this hart's interrupt file.
    unsafe { asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nostack, preserves_flags)) };
    top as u32
}

fn write_indirect(register: usize, value: usize) {
    // SAFETY: selects and writes a register of this hart's interrupt file, with interrupts masked
    // (`siselect`, `sireg`).
    unsafe {
        asm!("csrw 0x150, {}", "csrw 0x151, {}", in(reg) register, in(reg) value, options(nostack, preserves_flags))
    };
}

fn read_indirect(register: usize) -> usize {
    let value;
    // SAFETY: selects and reads a register of this hart's interrupt file, with interrupts masked
    // (`siselect`, `sireg`).
    unsafe {
        asm!("csrw 0x150, {}", "csrr {}, 0x151", in(reg) register, out(reg) value, options(nostack, preserves_flags))
    };
    value
}
