//! An interrupt line of the guest's controller.

use std::sync::Arc;

use anyhow::{Context, Result};
use kvm_ioctls::VmFd;

/// The part of KVM_IRQ_LINE's interrupt number that selects an SPI of the guest's controller; the
/// SPI number, from 0, is added.
const SHARED_INTERRUPT: u32 =
    kvm_bindings::KVM_ARM_IRQ_TYPE_SPI << kvm_bindings::KVM_ARM_IRQ_TYPE_SHIFT | 32;

/// An interrupt line, driven by one device.
pub struct Line {
    vm: Arc<VmFd>,
    interrupt: u32,
    high: bool,
}

impl Line {
    /// The line of SPI `interrupt`, low.
    pub fn new(vm: &Arc<VmFd>, interrupt: u32) -> Self {
        Self {
            vm: vm.clone(),
            interrupt,
            high: false,
        }
    }

    /// Sets the line, if that is a change.
    pub fn set(&mut self, high: bool) -> Result<()> {
        if high != self.high {
            self.high = high;
            let number = SHARED_INTERRUPT + self.interrupt;
            let moved = self.vm.set_irq_line(number, high);
            moved.context("interrupting the guest")?;
        }
        Ok(())
    }
}
