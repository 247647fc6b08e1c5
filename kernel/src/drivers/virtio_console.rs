//! The virtio console: /dev/hvc0.

use super::fdt;
use crate::arch::irq;
use crate::mm::dma::{self, KernelHal};
use crate::sync::Mutex;
use alloc::boxed::Box;
use virtio_drivers::device::console::VirtIOConsole;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};

/// Bytes that are sent at a time.
const BUFFER: usize = 4096;

struct Console {
    device: VirtIOConsole<KernelHal, MmioTransport<'static>>,
    /// What the device reads has to be in the heap, not on a stack.
    buffer: Box<[u8; BUFFER]>,
}

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);
static INPUT: Mutex<Option<fn(&[u8])>> = Mutex::new(None);

/// Looks for the device among the virtio devices of the device tree.
pub fn init() {
    for node in fdt::find(fdt::tree(), &["virtio,mmio"]) {
        let (interrupt, registers) = (irq::of_node(&node), fdt::regions(node).next());
        if let (Some(number), Some(range)) = (interrupt, registers)
            && probe(range.start, range.len())
        {
            irq::register(number, self::interrupt);
            irq::enable(number);
        }
    }
}

/// Takes the device whose registers are at `base` if it is a console and the first one; whether it did.
fn probe(base: usize, len: usize) -> bool {
    let Some(transport) = dma::virtio_device(base, len) else {
        return false;
    };
    if transport.device_type() != DeviceType::Console || is_present() {
        return false;
    }
    match VirtIOConsole::new(transport) {
        Ok(device) => {
            *CONSOLE.lock() = Some(Console {
                device,
                buffer: Box::new([0; BUFFER]),
            })
        }
        Err(error) => {
            crate::log!("virtio console at {base:#x}: {error}");
            return false;
        }
    }
    true
}

/// True when there is one.
pub fn is_present() -> bool {
    CONSOLE.lock().is_some()
}

/// Sends bytes; returns when the device has taken them.
pub fn write(bytes: &[u8]) {
    if let Some(console) = &mut *CONSOLE.lock() {
        for chunk in bytes.chunks(BUFFER) {
            let buffer = &mut console.buffer[..chunk.len()];
            buffer.copy_from_slice(chunk);
            if let Err(error) = console.device.send_bytes(buffer) {
                return crate::log!("virtio console: {error}");
            }
        }
    }
}

/// Says who gets what comes in.
pub fn on_input(handler: fn(&[u8])) {
    *INPUT.lock() = Some(handler);
    receive();
}

/// Handles the device's interrupt.
fn interrupt() {
    if let Some(console) = &mut *CONSOLE.lock() {
        // Whether it was ours, `receive` finds out.
        _ = console.device.ack_interrupt();
    }
    receive();
}

/// Hands out what came in, without the lock: the handler may answer.
fn receive() {
    let Some(handler) = *INPUT.lock() else { return };
    let mut bytes = [0; 256];
    loop {
        let count = match &mut *CONSOLE.lock() {
            Some(console) => take(&mut console.device, &mut bytes),
            None => 0,
        };
        if count == 0 {
            return;
        }
        handler(&bytes[..count]);
    }
}

fn take(device: &mut VirtIOConsole<KernelHal, MmioTransport<'static>>, bytes: &mut [u8]) -> usize {
    let mut count = 0;
    while let Some(place) = bytes.get_mut(count) {
        match device.recv(true) {
            Ok(Some(byte)) => *place = byte,
            _ => break,
        }
        count += 1;
    }
    count
}
