//! Phases of a guest's work, for a counter outside: a line `phase N` on its console begins one. The
//! exits so far are then printed, and a marker is executed: an instruction that has no effect but
//! carries a tag, which QEMU's plugin sees.

use std::arch::{asm, global_asm};
use std::sync::Arc;

use anyhow::Result;

use crate::stats::{self, Stats};

/// The prefix of such a line.
const START: &[u8] = b"phase ";
/// The tag of phase 0: lower tags belong to the program that starts the VMM.
const FIRST: u32 = 256;

global_asm!(
    // MOVZ to XZR has no effect (Arm ARM, MOV (wide immediate)).
    "markers:",
    ".set tag, {first}",
    ".rept 256",
    "movz xzr, #tag",
    "ret",
    ".set tag, tag + 1",
    ".endr",
    first = const FIRST,
);

unsafe extern "C" {
    safe static markers: [u64; 256];
}

/// Executes the marker of a phase.
fn mark(phase: u8) {
    let marker = &raw const markers[usize::from(phase)];
    // SAFETY: each entry is a marker and a return, and clobbers nothing but the link register.
    unsafe { asm!("blr {}", in(reg) marker, out("x30") _, options(nostack, preserves_flags)) };
}

/// The phases of a guest.
pub struct Phases {
    counters: Arc<[Stats]>,
    /// The incomplete line.
    line: Vec<u8>,
}

impl Phases {
    /// The phases of a guest whose vCPUs have these counters.
    pub fn new(counters: Arc<[Stats]>) -> Self {
        let line = Vec::new();
        Self { counters, line }
    }

    /// Handles output of the guest's console.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<()> {
        for byte in bytes {
            if *byte == b'\n' {
                self.end_line()?;
                self.line.clear();
            } else if self.line.len() < START.len() + 3 {
                self.line.push(*byte);
            }
        }
        Ok(())
    }

    fn end_line(&self) -> Result<()> {
        let number = self.line.strip_prefix(START);
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(phase) = number.and_then(|digits| digits.trim_end().parse().ok()) else {
            return Ok(());
        };
        mark(phase);
        stats::print(&self.counters, &format!("phase {phase} "))
    }
}
