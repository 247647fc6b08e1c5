//! The terminals on ports of the machine: the UART, and the virtio console.

use super::{Line, PORT_CHUNK, Tty};
use crate::drivers::virtio_console;
use crate::errno::Result;
use crate::params;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use machine::uart;

/// The device number of the UART's terminal, ttyAMA0.
const UART: (u32, u32) = (204, 64);
/// Its other name, ttyS0, for programs that expect a 16550.
const UART_ALIAS: (u32, u32) = (4, 64);
/// The number of bytes that a UART accepts at once; more have to wait for them by polling.
const UART_FIFO: usize = 16;
/// The device number of hvc0.
const HVC: (u32, u32) = (229, 0);

static PORTS: Mutex<Vec<Arc<Tty>>> = Mutex::new(Vec::new());

/// Creates the terminals of the machine's ports.
pub fn init() -> Result<()> {
    let tty = Tty::new(UART, Line::Port(uart::write, UART_FIFO))?;
    PORTS.lock().push(tty);
    uart::on_input(|bytes| receive(UART, bytes));
    if virtio_console::is_present() {
        let tty = Tty::new(HVC, Line::Port(virtio_console::write, PORT_CHUNK))?;
        PORTS.lock().push(tty);
        virtio_console::on_input(|bytes| receive(HVC, bytes));
    }
    Ok(())
}

fn receive(device: (u32, u32), bytes: &[u8]) {
    if let Some(tty) = find(device) {
        tty.receive(bytes);
    }
}

/// The terminal of a port, by its device number.
pub fn find(device: (u32, u32)) -> Option<Arc<Tty>> {
    let device = if device == UART_ALIAS { UART } else { device };
    PORTS
        .lock()
        .iter()
        .find(|tty| tty.device == device)
        .cloned()
}

/// All terminals on ports.
pub fn all() -> impl Iterator<Item = Arc<Tty>> {
    (0..).map_while(|at| PORTS.lock().get(at).cloned())
}

/// The console: the port that the boot parameter `console` names, or the UART.
pub fn console() -> Option<Arc<Tty>> {
    let hvc = params::get("console").is_some_and(|name| name.starts_with("hvc"));
    hvc.then(|| find(HVC)).flatten().or_else(|| find(UART))
}
