//! The virtio console: /dev/hvc0.

use crate::arch::irq;
use crate::fdt;
use crate::mm::dma::{self, KernelHal};
use crate::mm::ordered::Ordered;
use crate::mm::send_queue::SendQueue;
use crate::sync::Mutex;
use bitflags::bitflags;
use virtio_drivers::queue::{OwningQueue, VirtQueue};
use virtio_drivers::transport::{DeviceType, Transport};

/// The queues of the first port (virtio 1.2, 5.3.2).
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

/// Buffers that wait for input.
const BUFFERS: usize = 4;
/// Bytes that come in at a time.
const BUFFER: usize = 512;

bitflags! {
    /// What is used of the device (virtio 1.2, 6).
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const VERSION_1 = 1 << 32;
    }
}

struct Console {
    transport: Ordered,
    receive: OwningQueue<KernelHal, BUFFERS, BUFFER>,
    send: SendQueue,
}

impl Console {
    fn new(mut transport: Ordered) -> virtio_drivers::Result<Self> {
        transport.begin_init(Features::VERSION_1);
        let receive = VirtQueue::new(&mut transport, RECEIVE, false, false)?;
        let receive = OwningQueue::new(receive)?;
        let send = SendQueue::new(&mut transport, TRANSMIT)?;
        transport.finish_init();
        if receive.should_notify() {
            transport.notify(RECEIVE);
        }
        Ok(Console {
            transport,
            receive,
            send,
        })
    }
}

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);
static INPUT: Mutex<Option<Receiver>> = Mutex::new(None);

/// What takes the bytes that arrive.
type Receiver = fn(&[u8]);

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

/// Takes the device whose registers are at `base` if it is a console and the first one; whether it
/// did.
fn probe(base: usize, len: usize) -> bool {
    let Some(transport) = dma::virtio_device(base, len) else {
        return false;
    };
    if transport.device_type() != DeviceType::Console || is_present() {
        return false;
    }
    match Console::new(transport) {
        Ok(console) => *CONSOLE.lock() = Some(console),
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

/// Sends bytes, which the device takes when it can.
pub fn write(bytes: &[u8]) {
    if let Some(Console {
        transport, send, ..
    }) = &mut *CONSOLE.lock()
        && let Err(error) = send.send(transport, bytes)
    {
        crate::log!("virtio console: {error}");
    }
}

/// Waits until the device has taken all bytes: before the machine ends.
pub fn flush() {
    if let Some(console) = &mut *CONSOLE.lock()
        && let Err(error) = console.send.flush()
    {
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
        console.transport.ack_interrupt();
    }
    receive();
}

/// Hands out what came in, without the lock: the handler may answer.
fn receive() {
    let Some(handler) = *INPUT.lock() else { return };
    let mut bytes = [0; BUFFER];
    while let Some(len) = take(&mut bytes) {
        handler(&bytes[..len]);
    }
}

/// Copies what one buffer holds; how much that is.
fn take(bytes: &mut [u8; BUFFER]) -> Option<usize> {
    let console = &mut *CONSOLE.lock();
    let Console {
        transport, receive, ..
    } = console.as_mut()?;
    let copy = |input: &[u8]| {
        bytes[..input.len()].copy_from_slice(input);
        Ok(Some(input.len()))
    };
    receive.poll(transport, copy).unwrap_or_else(|error| {
        crate::log!("virtio console: {error}");
        None
    })
}
