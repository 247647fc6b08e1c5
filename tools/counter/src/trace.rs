//! The instructions of one phase, in the order of their execution.

use std::fmt::Write;

use crate::decode::Ring;

/// An instruction as it was translated.
pub struct Instruction {
    /// Where it was then.
    pub address: u64,
    pub word: u32,
    pub ring: Ring,
    pub text: String,
}

/// The executed instructions, up to a limit, and where each was.
#[derive(Default)]
pub struct Trace {
    kept: Vec<(u64, &'static Instruction)>,
    /// How far the block is from where it was translated.
    moved: u64,
}

impl Trace {
    /// A block that was translated at `begin` is executed at `pc`.
    pub fn enter(&mut self, begin: u64, pc: u64) {
        self.moved = pc.wrapping_sub(begin);
    }

    /// Keeps an instruction of the block; returns whether there is room for more.
    pub fn keep(&mut self, instruction: &'static Instruction, limit: usize) -> bool {
        let address = instruction.address.wrapping_add(self.moved);
        self.kept.push((address, instruction));
        self.kept.len() < limit
    }

    /// One JSON object a line.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for (address, instruction) in &self.kept {
            let (word, ring) = (instruction.word, instruction.ring.name());
            let assembly = instruction.text.replace(['"', '\\'], "'");
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"pc\":\"{address:#x}\",\"word\":\"{word:#010x}\",\"ring\":\"{ring}\",\
                 \"text\":\"{assembly}\"}}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_where_they_are_executed() {
        static CLEAR: Instruction = Instruction {
            address: 0x40e8_e6c4,
            word: 0xd503_201f,
            ring: Ring::Kernel,
            text: String::new(),
        };
        let mut trace = Trace::default();
        assert!(trace.keep(&CLEAR, 3));
        trace.enter(0x40e8_e6c0, 0xffff_8000_808e_e6c0);
        assert!(trace.keep(&CLEAR, 3));
        trace.enter(0x40e8_e6c0, 0x40e8_e6c0);
        assert!(!trace.keep(&CLEAR, 3));
        let line = |pc| {
            format!(
                "{{\"pc\":\"{pc}\",\"word\":\"0xd503201f\",\"ring\":\"kernel\",\"text\":\"\"}}\n"
            )
        };
        let lines = ["0x40e8e6c4", "0xffff8000808ee6c4", "0x40e8e6c4"].map(line);
        assert_eq!(trace.to_json(), lines.concat());
    }
}
