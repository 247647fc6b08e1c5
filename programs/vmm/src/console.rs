//! The console: a PL011 (Arm DDI 0183, chapter 3) that is always ready to send.

use std::collections::VecDeque;
use std::io::{self, Write};

/// Registers, by offset.
const DATA: u64 = 0x00;
const FLAGS: u64 = 0x18;
const MASK: u64 = 0x38;
const RAW: u64 = 0x3c;
const MASKED: u64 = 0x40;
const CLEAR: u64 = 0x44;
/// Registers in this range keep their values without effect: baud rate, line control, control, FIFO
/// levels.
const KEPT: std::ops::Range<u64> = 0x20..0x38;
/// The first identification register, and the values of all eight: a PL011 of revision 1.
const IDENTIFICATION: u64 = 0xfe0;
const IDENTITY: [u32; 8] = [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Flags: receive FIFO empty, transmit FIFO empty.
const RECEIVE_EMPTY: u32 = 1 << 4;
const SEND_EMPTY: u32 = 1 << 7;
/// Interrupts: receive, transmit.
const RECEIVED: u32 = 1 << 4;
const READY: u32 = 1 << 5;

/// The device's state.
#[derive(Default)]
pub struct Uart {
    /// The output is the guest's log, and goes to standard error.
    pub is_log: bool,
    input: VecDeque<u8>,
    kept: [u32; 6],
    mask: u32,
    raw: u32,
}

impl Uart {
    /// Whether the interrupt line is high.
    pub fn interrupts(&self) -> bool {
        self.raw & self.mask != 0
    }

    /// Queues bytes for the guest to read.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
        if !bytes.is_empty() {
            self.raw |= RECEIVED;
        }
    }

    /// Reads the register at `offset`.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            DATA => {
                let byte = self.input.pop_front().unwrap_or(0);
                if self.input.is_empty() {
                    self.raw &= !RECEIVED;
                }
                byte.into()
            }
            FLAGS if self.input.is_empty() => SEND_EMPTY | RECEIVE_EMPTY,
            FLAGS => SEND_EMPTY,
            MASK => self.mask,
            RAW => self.raw,
            MASKED => self.raw & self.mask,
            _ if KEPT.contains(&offset) => self.kept[(offset - KEPT.start) as usize / 4],
            IDENTIFICATION.. => IDENTITY
                .get((offset - IDENTIFICATION) as usize / 4)
                .copied()
                .unwrap_or(0),
            _ => 0,
        }
    }

    /// Writes the register at `offset`.
    pub fn write(&mut self, offset: u64, value: u32) -> io::Result<()> {
        match offset {
            DATA => {
                self.raw |= READY;
                if self.is_log {
                    return io::stderr().write_all(&[value as u8]);
                }
                let mut out = io::stdout().lock();
                out.write_all(&[value as u8])?;
                if value as u8 == b'\n' || self.mask & RECEIVED != 0 {
                    out.flush()?;
                }
            }
            MASK => self.mask = value,
            CLEAR => self.raw &= !value,
            _ if KEPT.contains(&offset) => self.kept[(offset - KEPT.start) as usize / 4] = value,
            _ => {}
        }
        Ok(())
    }
}
