//! What a guest's exits need to be answered without leaving its context.

use vgic::{Interface, Shared};

use super::abort::Access;
use super::directory::Directory;
use super::vcpu::Vcpu;
use super::vgic::{self as controller, Frames};
use crate::arch::virt::Registers;
use crate::arch::virt::interrupt::{self, Interrupt};
use crate::arch::virt::timer;

/// The running virtual CPU, and what it shares with others.
pub struct Context<'a> {
    /// Itself.
    pub vcpu: &'a Vcpu,
    /// All virtual CPUs, as they were when it was entered.
    pub directory: &'a Directory,
    /// Its interrupt controller, if the machine has one.
    pub gic: Option<Gic<'a>>,
    /// Timers whose interrupts were taken for a guest without a controller, as bits.
    taken: u32,
}

/// The interrupt controller, as one virtual CPU has it.
pub struct Gic<'a> {
    /// What all share.
    pub shared: &'a Shared,
    /// Where registers are.
    pub frames: &'a Frames,
    /// Its list registers.
    pub interface: &'a mut Interface,
}

impl<'a> Context<'a> {
    /// For a virtual CPU that is about to run.
    pub fn new(vcpu: &'a Vcpu, directory: &'a Directory, gic: Option<Gic<'a>>) -> Self {
        Context {
            vcpu,
            directory,
            gic,
            taken: 0,
        }
    }

    /// Deals with an interrupt that the guest was left for; returns one that is the host's.
    pub fn interrupted(&mut self) -> Option<u32> {
        let mut timer = None;
        match interrupt::take() {
            Interrupt::Look => {}
            Interrupt::Timer(number) => timer = Some(number),
            Interrupt::Hosts(number) => return Some(number),
        }
        let private = &self.vcpu.private;
        match (&mut self.gic, timer) {
            (Some(gic), Some(number)) => {
                let raise = || controller::timer(private, number);
                controller::with_state(gic.interface, private, gic.shared, self.directory, raise);
            }
            (None, Some(number)) => self.taken |= 1 << number,
            (_, None) => self.refill(),
        }
        None
    }

    /// Chooses anew what the list registers hold.
    fn refill(&mut self) {
        if let Some(gic) = &mut self.gic {
            controller::refill(
                gic.interface,
                &self.vcpu.private,
                gic.shared,
                self.directory,
            );
        }
    }

    /// Looks at what others sent, before the guest goes on.
    #[inline]
    pub fn accept(&mut self) {
        if self.vcpu.private.has_arrived() {
            self.refill();
        }
    }

    /// Does an access to the controller's registers; false if it is to something else.
    #[inline]
    pub fn access(&mut self, access: &Access, registers: &mut Registers) -> bool {
        let Some(gic) = &mut self.gic else {
            return false;
        };
        let Some((frame, offset)) = gic.frames.find(access.address()) else {
            return false;
        };
        let Some(access_at) = access.at(offset, registers) else {
            return false;
        };
        let (shared, directory) = (gic.shared, self.directory);
        let work = || controller::access(frame, shared, directory, &access_at);
        let value = if access_at.needs_state() {
            controller::with_state(gic.interface, &self.vcpu.private, shared, directory, work)
        } else {
            work()
        };
        access.complete(value, registers);
        true
    }

    /// The guest was left.
    pub fn end(self) {
        if let Some(gic) = self.gic {
            controller::leave(
                gic.interface,
                &self.vcpu.private,
                gic.shared,
                self.directory,
            );
        }
        if self.taken != 0 {
            timer::set_active(self.taken, false);
        }
    }
}
