//! The virtio console: /dev/hvc0.

use crate::arch::irq;
use crate::mm::virtio::{BUFFER, Device, Stream};
use crate::sync::Mutex;
use core::fmt::Display;

/// The queues of the first port (virtio 1.2, 5.3.2).
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

static CONSOLE: Mutex<Option<Stream>> = Mutex::new(None);
static INPUT: Mutex<Option<Receiver>> = Mutex::new(None);

/// The function that handles received bytes.
type Receiver = fn(&[u8]);

/// Starts a console with the interrupt `number`, if it is the first one.
pub fn start(device: Device, number: u32) {
    if is_present() {
        return;
    }
    match Stream::start(device, RECEIVE, TRANSMIT) {
        Ok(console) => *CONSOLE.lock() = Some(console),
        Err(error) => return crate::log!("virtio console: {error}"),
    }
    irq::register(number, interrupt);
    irq::enable(number);
}

/// Whether there is a console.
pub fn is_present() -> bool {
    CONSOLE.lock().is_some()
}

/// Queues bytes for the device.
pub fn write(bytes: &[u8]) {
    let sent = CONSOLE.lock().as_mut().map(|console| console.send(bytes));
    report(sent);
}

/// Waits until the device has taken all bytes, before the machine is shut down.
pub fn flush() {
    let done = CONSOLE.lock().as_mut().map(Stream::flush);
    report(done);
}

/// Logs an error, with no lock held, since the log may go to the console.
fn report(done: Option<Result<(), impl Display>>) {
    if let Some(Err(error)) = done {
        crate::log!("virtio console: {error}");
    }
}

/// Sets the receiver of input.
pub fn on_input(handler: fn(&[u8])) {
    *INPUT.lock() = Some(handler);
    receive();
}

/// Handles the device's interrupt.
fn interrupt() {
    if let Some(console) = &mut *CONSOLE.lock() {
        console.acknowledge();
    }
    receive();
}

/// Passes on the received bytes, with no lock held, since the receiver may write.
fn receive() {
    let Some(handler) = *INPUT.lock() else { return };
    let mut bytes = [0; BUFFER];
    while let Some(len) = take(&mut bytes) {
        handler(&bytes[..len]);
    }
}

/// Copies the bytes of one buffer; returns their number.
fn take(bytes: &mut [u8; BUFFER]) -> Option<usize> {
    let received = CONSOLE.lock().as_mut()?.receive(bytes);
    received.unwrap_or_else(|error| {
        crate::log!("virtio console: {error}");
        None
    })
}
