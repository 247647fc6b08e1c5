//! The serial console: Arm's PL011 (DDI 0183), or a 16550 and compatible devices.

use dtoolkit::fdt::FdtNode;
use spin::Once;

use crate::arch::mmio::Registers;
use crate::arch::{irq, power};
use crate::fdt;
use crate::sync::Mutex;

/// The register layout of a console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Model {
    Pl011,
    Ns16550 {
        /// log2 of the register spacing in bytes.
        shift: usize,
        /// Whether registers are accessed as words.
        wide: bool,
    },
}

/// The devices that this driver supports.
pub const COMPATIBLE: [&str; 4] = ["arm,pl011", "ns16550a", "ns16550", "snps,dw-apb-uart"];
/// Size of a console's registers in bytes.
#[allow(
    dead_code,
    reason = "for architectures that map devices before there is `mm`"
)]
pub const LEN: usize = 0x1000;

/// Registers of a PL011.
mod pl011 {
    pub const DATA: usize = 0x00;
    pub const FLAGS: usize = 0x18;
    pub const CONTROL: usize = 0x30;
    pub const MASK: usize = 0x38;
    pub const CLEAR: usize = 0x44;
    pub const RECEIVE_EMPTY: u32 = 1 << 4;
    pub const TRANSMIT_FULL: u32 = 1 << 5;
    /// Enables the UART, transmission and reception.
    pub const ENABLE: u32 = 1 << 0 | 1 << 8 | 1 << 9;
    /// Receive, and receive timeout.
    pub const RECEIVE_INTERRUPTS: u32 = 1 << 4 | 1 << 6;
}

/// Registers of a 16550.
mod ns16550 {
    pub const DATA: usize = 0;
    pub const INTERRUPTS: usize = 1;
    pub const LINE_STATUS: usize = 5;
    pub const DATA_READY: u32 = 1 << 0;
    pub const TRANSMIT_EMPTY: u32 = 1 << 5;
}

#[derive(Clone, Copy)]
struct Console {
    registers: Registers,
    model: Model,
}

impl Console {
    fn get(&self, register: usize) -> u32 {
        match self.model {
            Model::Pl011 => self.registers.read(register),
            Model::Ns16550 { shift, wide: true } => self.registers.read(register << shift),
            Model::Ns16550 { shift, .. } => self.registers.read_u8(register << shift).into(),
        }
    }

    fn set(&self, register: usize, value: u32) {
        match self.model {
            Model::Pl011 => self.registers.write(register, value),
            Model::Ns16550 { shift, wide: true } => self.registers.write(register << shift, value),
            Model::Ns16550 { shift, .. } => self.registers.write_u8(register << shift, value as u8),
        }
    }

    /// Writes a byte; returns whether it was accepted. A console that does not exist never accepts
    /// one.
    fn put(&self, byte: u8) -> bool {
        let (data, full): (usize, &dyn Fn() -> bool) = match self.model {
            Model::Pl011 => (pl011::DATA, &|| {
                self.get(pl011::FLAGS) & pl011::TRANSMIT_FULL != 0
            }),
            Model::Ns16550 { .. } => (ns16550::DATA, &|| {
                self.get(ns16550::LINE_STATUS) & ns16550::TRANSMIT_EMPTY == 0
            }),
        };
        let ready = (0..PATIENCE).any(|_| !full());
        if ready {
            self.set(data, byte.into());
        }
        ready
    }

    fn take(&self) -> Option<u8> {
        match self.model {
            Model::Pl011 if self.get(pl011::FLAGS) & pl011::RECEIVE_EMPTY == 0 => {
                Some(self.get(pl011::DATA) as u8)
            }
            Model::Ns16550 { .. } if self.get(ns16550::LINE_STATUS) & ns16550::DATA_READY != 0 => {
                Some(self.get(ns16550::DATA) as u8)
            }
            _ => None,
        }
    }
}

/// Number of times that a console is polled until it accepts the next byte: far more than the
/// slowest one needs.
const PATIENCE: usize = 1 << 22;
/// Number of attempts to take the console's lock: more than another CPU needs for a line.
const LOCK_PATIENCE: usize = 1 << 20;

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);
static INPUT: Once<fn(&[u8])> = Once::new();

/// Starts the console that `node` describes, or otherwise a PL011; its registers are mapped.
pub fn start(registers: Registers, node: Option<&FdtNode>) {
    let model = match node {
        Some(node) if !fdt::is_any(node, &["arm,pl011"]) => Model::Ns16550 {
            shift: fdt::number(node, "reg-shift").unwrap_or(0),
            wide: fdt::number(node, "reg-io-width") == Some(4),
        },
        _ => Model::Pl011,
    };
    let console = Console { registers, model };
    if model == Model::Pl011 {
        console.set(pl011::CONTROL, pl011::ENABLE);
    }
    *CONSOLE.lock() = Some(console);
}

/// Writes bytes unchanged.
pub fn write(bytes: &[u8]) {
    // A panicking CPU may hold the lock.
    let locked = (0..LOCK_PATIENCE).find_map(|_| CONSOLE.try_lock());
    let Some(mut console) = locked else {
        return power::last_words(bytes);
    };
    let put = |console: &Console| bytes.iter().take_while(|byte| console.put(**byte)).count();
    let written = console.as_ref().map_or(0, put);
    if written < bytes.len() {
        *console = None;
        power::last_words(&bytes[written..]);
    }
}

/// Registers `input`, which gets typed bytes in interrupt context.
pub fn on_input(input: fn(&[u8])) {
    INPUT.call_once(|| input);
    let interrupt =
        fdt::console_node(fdt::tree(), &COMPATIBLE).and_then(|node| irq::of_node(&node));
    let Some(interrupt) = interrupt else { return };
    irq::register(interrupt, receive);
    irq::enable(interrupt);
    if let Some(console) = &*CONSOLE.lock() {
        match console.model {
            Model::Pl011 => {
                console.set(pl011::CLEAR, pl011::RECEIVE_INTERRUPTS);
                console.set(pl011::MASK, pl011::RECEIVE_INTERRUPTS);
            }
            Model::Ns16550 { .. } => console.set(ns16550::INTERRUPTS, 1),
        }
    }
}

fn receive() {
    let mut bytes = [0; 32];
    loop {
        let mut len = 0;
        if let Some(console) = &*CONSOLE.lock() {
            while len < bytes.len()
                && let Some(byte) = console.take()
            {
                bytes[len] = byte;
                len += 1;
            }
        }
        if len == 0 {
            return;
        }
        if let Some(input) = INPUT.get() {
            input(&bytes[..len]);
        }
    }
}
