//! The measured rows.

use core::arch::asm;

use crate::cpus::Cpus;
use crate::measure::{Samples, batches, overhead};
use crate::platform::Platform;
use crate::{gic, irq, psci, receiver, sgi, time, uart};

/// A vendor-specific hypercall that no hypervisor has.
const REFUSED: u64 = 0x8600_ff00;
/// A cluster that no machine of up to 512 CPUs has.
const ABSENT: u64 = 0xff_0000;
/// A spurious interrupt number: to end it has no effect.
const SPURIOUS: u32 = 1023;
/// The time from arming the timer to its deadline, in microseconds.
const AHEAD: u64 = 1000;
/// The time for a receiver to wait again, in microseconds: Linux's KVM polls for up to 500 µs
/// before it lets a vCPU sleep (`halt_poll_ns`).
const REST: u64 = 2000;

/// Measures all rows for which there are enough CPUs.
pub fn all(platform: &Platform, cpus: &Cpus) {
    batches(0, "hvc", || assert_eq!(psci::call(REFUSED, [0; 3]), -1));
    let (identity, flags) = (
        platform.distributor + gic::IIDR,
        platform.uart + uart::FLAGS,
    );
    batches(1, "mmio_vgic", || _ = gic::read(identity));
    batches(2, "mmio_vmm", || _ = gic::read(flags));
    batches(3, "id_register", read_id_register);
    batches(4, "eoi", || gic::end(SPURIOUS));
    timer(false, "timer");
    timer(true, "timer_asleep");
    batches(5, "sgi_empty", || {
        sgi::send(sgi::targets(cpus.first, 0), sgi::QUIET)
    });
    batches(6, "sgi_absent_16", || {
        sgi::send(sgi::targets(ABSENT, 0xffff), sgi::QUIET)
    });
    let Some(last) = cpus.last else { return };
    batches(7, "sgi_pending", || {
        sgi::send(sgi::target(last), sgi::QUIET)
    });
    batches(8, "sgi_broadcast", || sgi::send(sgi::BROADCAST, sgi::QUIET));
    if cpus.count >= 16 {
        batches(9, "sgi_list_16", || {
            sgi::send(sgi::targets(cpus.first, 0xffff), sgi::QUIET)
        });
    }
    ipi(
        last,
        false,
        [
            "ipi_spinning_sender",
            "ipi_spinning_receiver",
            "ipi_spinning",
        ],
    );
    ipi(
        last,
        true,
        ["ipi_asleep_sender", "ipi_asleep_receiver", "ipi_asleep"],
    );
}

fn read_id_register() {
    // SAFETY: reads an ID register.
    unsafe { asm!("mrs {}, id_aa64isar0_el1", out(reg) _) };
}

/// Measures the time from the timer's deadline to the handler, while the CPU spins or `sleeps`.
fn timer(sleeps: bool, name: &str) {
    let mut samples = Samples::new();
    loop {
        let deadline = time::now() + time::microseconds(AHEAD);
        if !samples.add(irq::timer_taken(deadline, sleeps) - deadline) {
            break;
        }
    }
    samples.print(name, 1);
}

/// Measures an SGI from the first CPU to the last. The sender's part is the trapped write; the
/// receiver's part is from then to its handler. An emulator that runs one CPU at a time switches to
/// the receiver when the sender waits, so the parts are disjoint there. On hardware they overlap,
/// and only their sum is meaningful.
fn ipi(last: u64, sleeps: bool, names: [&str; 3]) {
    let overhead = overhead();
    let [mut senders, mut receivers, mut sums] = [const { Samples::new() }; 3];
    let target = sgi::target(last);
    receiver::set_sleeps(sleeps);
    receiver::expect();
    sgi::send(target, sgi::LOUD);
    receiver::wait_until_received();
    loop {
        time::pause(REST);
        receiver::expect();
        let start = time::now();
        sgi::send(target, sgi::LOUD);
        let sent = time::now();
        let taken = receiver::wait_until_received();
        // If the receiver took the SGI before the sender read the clock, the parts cannot be
        // separated.
        if let Some(ticks) = taken.checked_sub(sent) {
            senders.add((sent - start).saturating_sub(overhead));
            receivers.add(ticks);
        }
        if !sums.add((taken - start).saturating_sub(overhead)) {
            break;
        }
    }
    for (samples, name) in [senders, receivers, sums].into_iter().zip(names) {
        samples.print(name, 1);
    }
}
