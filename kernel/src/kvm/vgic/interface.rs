//! A virtual CPU's list registers: on entry into the guest, while it runs, and on exit.

use core::sync::atomic::Ordering::Relaxed;

use vgic::{Interface, Private, Shared};

use super::super::directory::Directory;
use super::super::vm::Machine;
use crate::arch::virt::{Guest, controller, timer};

/// Prepares list registers and timers for a guest that is about to run here. Timer interrupts that
/// are due, or that the guest has not handled yet, are made active in the hardware, so that it does
/// not signal them again.
pub fn enter(interface: &mut Interface, guest: &Guest, private: &Private, shared: &Shared) {
    let active = private.bank.active.load(Relaxed);
    set_lines(private, !active, timer::due(&guest.system, guest.offsets));
    fill(interface, private, shared, 0);
    let held = held(private);
    if held != 0 {
        timer::set_active(held, true);
    }
}

/// Takes the state back from the hardware after the guest ran.
pub fn leave(
    interface: &mut Interface,
    private: &Private,
    shared: &Shared,
    directory: &Directory,
    machine: &Machine,
) {
    let used = interface.registers().len();
    fold(interface, private, shared, directory, machine);
    clear(0, used);
    let held = held(private);
    if held != 0 {
        timer::set_active(held, false);
    }
}

/// Chooses new content for the list registers while the guest's context is loaded.
pub fn refill(
    interface: &mut Interface,
    private: &Private,
    shared: &Shared,
    directory: &Directory,
    machine: &Machine,
) {
    with_state(interface, private, shared, directory, machine, || ());
}

/// Takes back the pending and active state, performs an access that needs it and may change it, and
/// then refills the list registers.
pub fn with_state<R>(
    interface: &mut Interface,
    private: &Private,
    shared: &Shared,
    directory: &Directory,
    machine: &Machine,
    access: impl FnOnce() -> R,
) -> R {
    let used = interface.registers().len();
    fold(interface, private, shared, directory, machine);
    rearm_timers(private);
    let result = access();
    fill(interface, private, shared, used);
    result
}

/// Records an interrupt of a timer that was taken from the hardware.
pub fn timer(private: &Private, interrupt: u32) {
    private.bank.set_line(interrupt, true);
}

/// Whether a virtual CPU that does not run has an interrupt to take.
pub fn is_due(private: &Private, shared: &Shared, place: u16) -> bool {
    shared.is_enabled() && (private.deliverable() != 0 || shared.has_for(place))
}

/// When a timer next interrupts a virtual CPU that does not run, in the host's ticks.
pub fn next_timer(private: &Private, guest: &Guest) -> Option<u64> {
    let enabled = private.bank.enabled.load(Relaxed);
    let deadlines = timer::deadlines(&guest.system, guest.offsets);
    let timers = [timer::VIRTUAL, timer::PHYSICAL].into_iter().zip(deadlines);
    timers
        .filter(|(interrupt, _)| enabled >> interrupt & 1 != 0)
        .filter_map(|(_, deadline)| deadline)
        .min()
}

/// The timer interrupts that the guest has not finished handling.
fn held(private: &Private) -> u32 {
    let bank = &private.bank;
    let busy = bank.line.load(Relaxed) | bank.active.load(Relaxed) | bank.listed.load(Relaxed);
    busy & timer::INTERRUPTS
}

/// Sets the lines of the timers in `mask` to the levels in `high`.
fn set_lines(private: &Private, mask: u32, high: u32) {
    for interrupt in [timer::VIRTUAL, timer::PHYSICAL] {
        if mask >> interrupt & 1 != 0 {
            private.bank.set_line(interrupt, high >> interrupt & 1 != 0);
        }
    }
}

/// Lets timers interrupt again whose line fell before the guest took their interrupt.
fn rearm_timers(private: &Private) {
    let line = private.bank.line.load(Relaxed);
    let fallen = line & timer::INTERRUPTS & !timer::lines();
    if fallen != 0 {
        set_lines(private, fallen, 0);
        timer::set_active(fallen, false);
    }
}

#[inline]
fn fold(
    interface: &mut Interface,
    private: &Private,
    shared: &Shared,
    directory: &Directory,
    machine: &Machine,
) {
    if !interface.is_empty() {
        take_back(interface, private, shared, directory, machine);
    }
}

#[inline(never)]
fn take_back(
    interface: &mut Interface,
    private: &Private,
    shared: &Shared,
    directory: &Directory,
    machine: &Machine,
) {
    // There is usually one list register in use; it is named directly, which avoids the lookup by
    // number.
    if let Some((first, others)) = interface.registers_mut().split_first_mut() {
        first.0 = controller::list(0);
        for (number, register) in (1..).zip(others) {
            register.0 = controller::list(number);
        }
    }
    let spilled = interface.has_spilled();
    interface.fold(private, shared, |place| {
        if let Some(vcpu) = directory.vcpus().get(usize::from(place)) {
            vcpu.request_refresh();
        }
    });
    if spilled {
        interface.ended_elsewhere(controller::ended_elsewhere(), private, shared);
    }
    // This comes before list registers are filled, since it may lower lines.
    while let Some(number) = interface.ended() {
        machine.ended(number);
    }
}

/// Empties the list registers from `first` on; the first `used` may hold something.
#[inline(always)]
fn clear(first: usize, used: usize) {
    if first == 0 && used != 0 {
        controller::set_list(0, 0);
    }
    (first.max(1)..used).for_each(|number| controller::set_list(number, 0));
}

/// Fills the list registers; the first `used` may hold something.
fn fill(interface: &mut Interface, private: &Private, shared: &Shared, used: usize) {
    interface.fill(private, shared, timer::INTERRUPTS);
    let registers = interface.registers();
    if let Some((first, others)) = registers.split_first() {
        controller::set_list(0, first.0);
        for (number, register) in (1..).zip(others) {
            controller::set_list(number, register.0);
        }
    }
    clear(registers.len(), used);
    controller::set_reports(interface.waits_for_room(), interface.has_spilled());
}
