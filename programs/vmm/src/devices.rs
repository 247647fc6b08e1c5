//! The emulated devices: the console, virtio devices, and the status register.

use std::io::Read;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use kvm_ioctls::VmFd;

use crate::console::Uart;
use crate::layout::{DEVICE_LEN, STATUS, UART, UART_INTERRUPT, VIRTIO, VIRTIO_INTERRUPT};
use crate::line::Line;
use crate::memory::Memory;
use crate::options::Options;
use crate::phases::Phases;
use crate::virtio::{Arrival, Block, Console, Device, Entropy, Transport, Vsock};

/// The maximum number of chunks of data that wait for the guest.
const ARRIVALS: usize = 16;

/// The devices, shared by all vCPUs.
pub struct Devices {
    uart: Mutex<(Uart, Line)>,
    /// The console is first, vsock last.
    virtio: Vec<Mutex<Transport>>,
    status: AtomicU8,
}

/// The number of virtio devices for these options.
pub fn count(options: &Options) -> usize {
    2 + options.disks.len() + usize::from(options.vsock.is_some())
}

impl Devices {
    /// Creates devices that interrupt `vm` and access its `memory`; the guest marks `phases` on its
    /// console. Also returns the data that arrives for vsock streams.
    pub fn new(
        vm: &Arc<VmFd>,
        memory: &Memory,
        options: &Options,
        phases: Option<Phases>,
    ) -> Result<(Self, Receiver<Arrival>)> {
        let (sender, arrivals) = sync_channel(ARRIVALS);
        let mut all: Vec<Box<dyn Device>> = vec![Box::new(Console::new(phases))];
        for path in &options.disks {
            all.push(Box::new(Block::new(path)?));
        }
        all.push(Box::new(Entropy::new()?));
        if let Some(path) = &options.vsock {
            all.push(Box::new(Vsock::new(path.clone(), sender)));
        }
        let transport = |(at, device)| {
            let line = Line::new(vm, VIRTIO_INTERRUPT + at as u32);
            Ok(Mutex::new(Transport::new(device, memory.clone(), line)?))
        };
        let mut uart = Uart::default();
        uart.is_log = options.log;
        let devices = Self {
            uart: Mutex::new((uart, Line::new(vm, UART_INTERRUPT))),
            virtio: all
                .into_iter()
                .enumerate()
                .map(transport)
                .collect::<Result<_>>()?,
            status: AtomicU8::new(0),
        };
        Ok((devices, arrivals))
    }

    /// The value of the status register.
    pub fn status(&self) -> u8 {
        self.status.load(Ordering::Relaxed)
    }

    /// Handles a read; addresses without a device read as 0.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<()> {
        data.fill(0);
        if let Some((device, offset)) = self.virtio_at(address) {
            device.read(offset, data);
        } else if (UART..UART + DEVICE_LEN).contains(&address) {
            let len = data.len().min(4);
            self.with_uart(|uart| {
                data[..len].copy_from_slice(&uart.read(address - UART).to_le_bytes()[..len]);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Handles a write; addresses without a device ignore writes.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<()> {
        let mut bytes = [0; 4];
        let len = data.len().min(4);
        bytes[..len].copy_from_slice(&data[..len]);
        let value = u32::from_le_bytes(bytes);
        if let Some((mut device, offset)) = self.virtio_at(address) {
            device.write(offset, value)?;
        } else if (UART..UART + DEVICE_LEN).contains(&address) {
            self.with_uart(|uart| {
                uart.write(address - UART, value)
                    .context("writing the guest's output")
            })?;
        } else if address == STATUS {
            self.status.store(value as u8, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Passes standard input up to its end to the console that the guest uses.
    pub fn feed(&self) -> Result<()> {
        let mut bytes = [0; 256];
        loop {
            let len = std::io::stdin().lock().read(&mut bytes)?;
            if len == 0 {
                return Ok(());
            }
            let mut console = lock(&self.virtio[0]);
            if console.is_driven() {
                console.arrive(0, &bytes[..len])?;
                continue;
            }
            drop(console);
            self.with_uart(|uart| {
                uart.receive(&bytes[..len]);
                Ok(())
            })?;
        }
    }

    /// Passes arriving data to the vsock streams.
    pub fn pass(&self, arrivals: &Receiver<Arrival>) -> Result<()> {
        let streams = self.virtio.last().context("no device")?;
        for Arrival { source, bytes } in arrivals {
            lock(streams).arrive(source, &bytes)?;
        }
        Ok(())
    }

    fn virtio_at(&self, address: u64) -> Option<(MutexGuard<'_, Transport>, u64)> {
        let offset = address.checked_sub(VIRTIO)?;
        let device = self.virtio.get((offset / DEVICE_LEN) as usize)?;
        Some((lock(device), offset % DEVICE_LEN))
    }

    /// Accesses the console, then updates its interrupt line.
    fn with_uart(&self, work: impl FnOnce(&mut Uart) -> Result<()>) -> Result<()> {
        let (uart, line) = &mut *lock(&self.uart);
        work(uart)?;
        line.set(uart.interrupts())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
