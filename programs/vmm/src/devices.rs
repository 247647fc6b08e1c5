//! What answers where no memory is: the console and the status register.

use std::io::Read;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use kvm_ioctls::VmFd;

use crate::console::Uart;
use crate::layout::{DEVICE_LEN, STATUS, UART, UART_INTERRUPT};

/// KVM_IRQ_LINE's number of a shared interrupt of the guest's controller: its type above, the number beyond 32 added.
const SHARED_INTERRUPT: u32 =
    kvm_bindings::KVM_ARM_IRQ_TYPE_SPI << kvm_bindings::KVM_ARM_IRQ_TYPE_SHIFT | 32;

/// The devices, shared by all virtual CPUs.
pub struct Devices {
    vm: Arc<VmFd>,
    uart: Mutex<(Uart, bool)>,
    status: AtomicU8,
}

impl Devices {
    /// Devices that interrupt `vm`.
    pub fn new(vm: Arc<VmFd>) -> Self {
        Self {
            vm,
            uart: Mutex::default(),
            status: AtomicU8::new(0),
        }
    }

    /// The status that the guest left.
    pub fn status(&self) -> u8 {
        self.status.load(Ordering::Relaxed)
    }

    /// Answers a read of `data.len()` bytes; what no device is at reads as 0.
    pub fn read(&self, address: u64, data: &mut [u8]) -> Result<()> {
        let mut value = 0;
        if (UART..UART + DEVICE_LEN).contains(&address) {
            self.with_uart(|uart| {
                value = uart.read(address - UART);
                Ok(())
            })?;
        }
        let bytes = u64::from(value).to_le_bytes();
        data.copy_from_slice(&bytes[..data.len()]);
        Ok(())
    }

    /// Takes a write; what no device is at takes anything.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<()> {
        let mut bytes = [0; 4];
        let len = data.len().min(4);
        bytes[..len].copy_from_slice(&data[..len]);
        let value = u32::from_le_bytes(bytes);
        if (UART..UART + DEVICE_LEN).contains(&address) {
            self.with_uart(|uart| {
                uart.write(address - UART, value)
                    .context("writing the guest's output")
            })?;
        } else if address == STATUS {
            self.status.store(value as u8, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Passes standard input to the console, to its end.
    pub fn feed(&self) -> Result<()> {
        let mut bytes = [0; 256];
        loop {
            let len = std::io::stdin().lock().read(&mut bytes)?;
            if len == 0 {
                return Ok(());
            }
            self.with_uart(|uart| {
                uart.receive(&bytes[..len]);
                Ok(())
            })?;
        }
    }

    /// Works on the console, then moves its interrupt line where that changed.
    fn with_uart(&self, work: impl FnOnce(&mut Uart) -> Result<()>) -> Result<()> {
        let mut state = self.uart.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut state.0)?;
        let level = state.0.interrupts();
        if level != state.1 {
            state.1 = level;
            self.vm
                .set_irq_line(SHARED_INTERRUPT + UART_INTERRUPT, level)
                .context("interrupting the guest")?;
        }
        Ok(())
    }
}
