//! The state that is needed to handle a guest's exits without leaving its context.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crossings::Table;
use vgic::{Interface, Shared};

use super::abort::Access;
use super::directory::Directory;
use super::ioevents;
use super::stats::ExitKind;
use super::vcpu::Vcpu;
use super::vgic::{self as controller, Frames};
use super::vm::Machine;
use crate::arch::cpu;
use crate::arch::virt::interrupt::{self, Hosts, Interrupt};
use crate::arch::virt::timer;
use crate::arch::virt::{Next, Registers};
use crate::task::Thread;

/// The running virtual CPU, and the state that it shares with others.
pub struct Context<'a> {
    /// The virtual CPU.
    pub vcpu: &'a Vcpu,
    /// The machine.
    pub machine: &'a Machine,
    /// All virtual CPUs, as they were when the guest was entered.
    pub directory: &'a Directory,
    /// Its interrupt controller, if the machine has one.
    pub gic: Option<Gic<'a>>,
    /// The VMM's settings of the virtual CPU.
    pub config: VcpuConfig,
    /// The counters of this CPU.
    crossings: &'static Table,
    /// The work flags of its thread; the guest is left if any is set.
    work: &'a AtomicU32,
    /// Its handle on the guest's writes that signal eventfds.
    events: &'a mut ioevents::Reader,
    /// A bit for each timer whose interrupt was taken for a guest without a controller.
    taken: u32,
}

/// A VMM's settings of a virtual CPU.
#[derive(Clone, Copy)]
pub struct VcpuConfig {
    /// The guest has PSCI version 0.2 or newer.
    pub has_psci: bool,
    /// A call is refused if its number has one of these bits.
    pub refused: u32,
    /// Stolen time is reported to the guest.
    pub stolen_time: bool,
    /// The offset of its physical counter behind the host's.
    pub offset: u64,
}

/// The result of an access to the controller's registers.
pub enum Done {
    /// The access is not one to the controller.
    Elsewhere,
    /// The access was performed.
    Here,
    /// All other vCPUs must be stopped first.
    Halts,
}

/// The interrupt controller, from the view of one virtual CPU.
pub struct Gic<'a> {
    /// The state that all virtual CPUs share.
    pub shared: &'a Shared,
    /// The addresses of the registers.
    pub frames: &'a Frames,
    /// Its list registers.
    pub interface: &'a mut Interface,
}

impl<'a> Context<'a> {
    /// The context of a virtual CPU that the current thread is about to run.
    pub fn new(
        thread: &'a Thread,
        vcpu: &'a Vcpu,
        machine: &'a Machine,
        directory: &'a Directory,
        events: &'a mut ioevents::Reader,
        gic: Option<Gic<'a>>,
        config: VcpuConfig,
    ) -> Self {
        Context {
            vcpu,
            machine,
            directory,
            gic,
            config,
            crossings: cpu::this().crossings(),
            work: &thread.arch.work,
            events,
            taken: 0,
        }
    }

    /// Handles an interrupt that caused an exit; returns it if it is the host's.
    pub fn interrupted(&mut self) -> Option<Hosts> {
        self.count(ExitKind::Interrupt);
        let mut timer = None;
        match interrupt::take() {
            Interrupt::Look => {}
            Interrupt::Timer(number) => timer = Some(number),
            Interrupt::Hosts(interrupt) => return Some(interrupt),
        }
        let private = &self.vcpu.private;
        match (&mut self.gic, timer) {
            (Some(gic), Some(number)) => {
                let raise = || controller::timer(private, number);
                let (shared, directory) = (gic.shared, self.directory);
                controller::with_state(
                    gic.interface,
                    private,
                    shared,
                    directory,
                    self.machine,
                    raise,
                );
            }
            (None, Some(number)) => self.taken |= 1 << number,
            (_, None) => self.refill(),
        }
        None
    }

    /// Chooses new content for the list registers.
    pub fn refill(&mut self) {
        if let Some(gic) = &mut self.gic {
            controller::refill(
                gic.interface,
                &self.vcpu.private,
                gic.shared,
                self.directory,
                self.machine,
            );
        }
    }

    /// Counts an exit.
    #[inline(always)]
    pub fn count(&self, exit: ExitKind) {
        self.vcpu.exits.count_with(self.crossings, exit);
    }

    /// Whether the guest continues at once, with the interrupts that others sent.
    ///
    /// A thread that changes one of these while this vCPU is in the guest also interrupts this CPU,
    /// so that relaxed loads suffice.
    #[inline(always)]
    pub fn next(&mut self) -> Next {
        let (arrived, stops) = (self.vcpu.private.pending_flags(), self.vcpu.stops());
        if arrived | stops | self.work.load(Relaxed) == 0 {
            return Next::Enter;
        }
        self.look()
    }

    #[inline(never)]
    fn look(&mut self) -> Next {
        if self.vcpu.private.has_arrived() {
            self.refill();
        }
        match self.vcpu.stops() | self.work.load(Relaxed) {
            0 => Next::Enter,
            _ => Next::Leave,
        }
    }

    /// Performs an access to the controller's registers, unless it needs the guest's memory.
    #[inline]
    pub fn access(&mut self, access: &Access, registers: &mut Registers) -> Done {
        let Some(gic) = &mut self.gic else {
            return Done::Elsewhere;
        };
        let Some((frame, offset)) = gic.frames.find(access.address()) else {
            return Done::Elsewhere;
        };
        let Some(access_at) = access.at(offset, registers) else {
            return Done::Elsewhere;
        };
        if frame.needs_memory(gic.shared, &access_at) {
            return Done::Elsewhere;
        }
        let (shared, directory) = (gic.shared, self.directory);
        let work = || controller::access(frame, shared, directory, &access_at);
        let value = if access_at.needs_state() {
            let own = self.vcpu;
            let private = &own.private;
            let work = || {
                let elsewhere =
                    controller::is_held_elsewhere(&frame, shared, directory, own, &access_at);
                (!elsewhere).then(work)
            };
            match controller::with_state(
                gic.interface,
                private,
                shared,
                directory,
                self.machine,
                work,
            ) {
                Some(value) => value,
                None => return Done::Halts,
            }
        } else {
            work()
        };
        access.complete(value, registers);
        Done::Here
    }

    /// Handles a write to a device that signals an eventfd or is collected in the ring; false if it
    /// is another access.
    #[inline]
    pub fn write(&mut self, access: &Access, registers: &mut Registers) -> bool {
        let Some(events) = self.machine.events.get(self.events) else {
            return false;
        };
        let written = access.at(0, registers);
        let done = written.is_some_and(|written| {
            let value = written.write;
            let ring = &self.machine.ring;
            value.is_some_and(|value| events.write(ring, access.address(), written.len, value))
        });
        if done {
            access.complete(0, registers);
        }
        done
    }

    /// Called after the guest was left.
    pub fn end(self) {
        if let Some(gic) = self.gic {
            controller::leave(
                gic.interface,
                &self.vcpu.private,
                gic.shared,
                self.directory,
                self.machine,
            );
        }
        if self.taken != 0 {
            timer::set_active(self.taken, false);
        }
    }
}
