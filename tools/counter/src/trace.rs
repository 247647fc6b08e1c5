//! The instructions of one phase, in the order of their execution.

use std::fmt::Write;

/// An instruction as it was translated.
pub struct Instruction {
    pub address: u64,
    pub word: u32,
    pub text: String,
}

/// The executed instructions, up to a limit.
#[derive(Default)]
pub struct Trace(Vec<&'static Instruction>);

impl Trace {
    /// Keeps an instruction; returns whether there is room for more.
    pub fn keep(&mut self, instruction: &'static Instruction, limit: usize) -> bool {
        self.0.push(instruction);
        self.0.len() < limit
    }

    /// One JSON object a line.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for Instruction {
            address,
            word,
            text: assembly,
        } in &self.0
        {
            let assembly = assembly.replace(['"', '\\'], "'");
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"pc\":\"{address:#x}\",\"word\":\"{word:#010x}\",\"text\":\"{assembly}\"}}"
            );
        }
        text
    }
}
