//! The platform-level interrupt controller (RISC-V PLIC specification 1.0).

use super::mmio::Registers;

/// Register offsets in bytes (chapter 3, "Memory Map").
mod offset {
    /// Priority of source 1; one word per source.
    pub const PRIORITY: usize = 0;
    /// Enable bits of context 0; 128 bytes per context.
    pub const ENABLE: usize = 0x2000;
    pub const ENABLE_STRIDE: usize = 0x80;
    /// Threshold, and claim/complete, of context 0; a page per context.
    pub const CONTEXT: usize = 0x20_0000;
    pub const CONTEXT_STRIDE: usize = 0x1000;
    pub const CLAIM: usize = 4;
}

/// A controller, and the context of the hart that gets its interrupts.
pub struct Plic {
    registers: Registers,
    context: usize,
}

impl Plic {
    /// Enables interrupts to `context`.
    pub fn new(registers: Registers, context: usize) -> Self {
        let plic = Plic { registers, context };
        registers.write(plic.context_registers(), 0);
        plic
    }

    fn context_registers(&self) -> usize {
        offset::CONTEXT + self.context * offset::CONTEXT_STRIDE
    }

    /// Enables source `source`.
    pub fn enable(&self, source: u32) {
        self.registers
            .write(offset::PRIORITY + source as usize * size_of::<u32>(), 1);
        let word = offset::ENABLE
            + self.context * offset::ENABLE_STRIDE
            + source as usize / 32 * size_of::<u32>();
        self.registers
            .write(word, self.registers.read(word) | 1 << (source % 32));
    }

    /// Claims the next pending source.
    pub fn claim(&self) -> Option<u32> {
        Some(
            self.registers
                .read(self.context_registers() + offset::CLAIM),
        )
        .filter(|&source| source != 0)
    }

    /// Completes source `source`.
    pub fn complete(&self, source: u32) {
        self.registers
            .write(self.context_registers() + offset::CLAIM, source);
    }
}
