//! A virtual CPU: its file, its state, and KVM_RUN.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use vgic::{Interface, Private};

use super::abort::{self, Access};
use super::add_file;
use super::context::{Context, Gic};
use super::directory::Reader;
use super::exit::{self, Exit};
use super::page::RunPage;
use super::registers;
use super::stats::{self, Exits, Statistics};
use super::uapi::{self, OneRegister, VcpuInit};
use super::vgic as gic;
use super::vm::Machine;
use crate::arch::{
    self,
    virt::{Guest, Left, controller},
};
use crate::errno::{Errno, Result};
use crate::fs::file::{File, FileOps, Memory};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::{Mutex, SleepMutex};
use crate::task::wait::WaitQueue;
use crate::task::{current, sched};

/// The most virtual CPUs of a machine, and the bound of their numbers.
pub const MAX_VCPUS: usize = 512;
/// No CPU.
const NOWHERE: usize = usize::MAX;

/// A virtual CPU.
pub struct Vcpu {
    /// Its number, by which the monitor knows it.
    pub id: u32,
    /// The affinity fields of its MPIDR_EL1.
    pub affinity: u64,
    /// The interrupts that it has for itself.
    pub private: Private,
    /// How often it left its guest.
    pub exits: Exits,
    page: RunPage,
    state: SleepMutex<State>,
    on: AtomicBool,
    /// Where another CPU wants this one to start: address and argument.
    start: Mutex<Option<(u64, u64)>>,
    /// Woken when it is to look at the above.
    changed: WaitQueue,
    /// The CPU that runs it.
    cpu: AtomicUsize,
}

/// What only its own thread changes.
pub struct State {
    /// What ARM_VCPU_INIT was given, once it was.
    init: Option<VcpuInit>,
    /// What the hardware holds while it runs.
    pub guest: Guest,
    /// The access that the monitor is to answer.
    pending: Option<Access>,
    /// Its handle on the directory.
    reader: Reader,
    /// Its list registers, once it has run.
    interface: Option<Interface>,
    /// Its place in the machine's table.
    place: u16,
}

impl Vcpu {
    /// Virtual CPU number `id`, with the affinity that Linux gives it: sixteen to a cluster.
    /// Its counter is behind the host's by `counter_offset` ticks.
    pub fn new(id: u32, counter_offset: u64) -> Result<Self> {
        let affinity = u64::from(id & 0xf | (id >> 4 & 0xff) << 8 | (id >> 12 & 0xff) << 16);
        let mut guest = Guest::new();
        (guest.affinity, guest.counter_offset) = (affinity, counter_offset);
        Ok(Vcpu {
            id,
            affinity,
            private: Private::new(),
            exits: Exits::default(),
            page: RunPage::new()?,
            state: SleepMutex::new(State {
                init: None,
                guest,
                pending: None,
                reader: Reader::new(),
                interface: None,
                place: 0,
            }),
            on: AtomicBool::new(false),
            start: Mutex::new(None),
            changed: WaitQueue::new(),
            cpu: AtomicUsize::new(NOWHERE),
        })
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.on.load(Acquire)
    }

    /// Turns it off, and makes it notice.
    pub fn stop(&self) {
        self.on.store(false, Release);
        let cpu = self.cpu.load(SeqCst);
        if cpu != NOWHERE {
            arch::smp::kick(cpu);
        }
        self.changed.wake_all();
    }

    /// Interrupts of its changed: it looks at them before it goes on.
    #[inline]
    pub fn ask_to_look(&self) {
        if self.private.ask_to_look() {
            self.tell();
        }
    }

    /// Makes it notice what has arrived: where it runs on another CPU, and where it sleeps.
    #[inline]
    pub fn tell(&self) {
        match self.cpu.load(SeqCst) {
            NOWHERE => self.changed.wake_all(),
            cpu if cpu == arch::cpu::this().index() => {}
            cpu => arch::smp::kick_guest(cpu),
        }
    }

    /// Turns it on at `entry` with `argument` in x0; false if it is on already.
    pub fn start(&self, entry: u64, argument: u64) -> bool {
        let mut start = self.start.lock();
        if self.is_on() {
            return false;
        }
        *start = Some((entry, argument));
        self.on.store(true, Release);
        drop(start);
        self.changed.wake_all();
        true
    }

    fn init(&self, state: &mut State, init: VcpuInit) -> Result<()> {
        let known = 1 << uapi::FEATURES;
        if init.target != uapi::TARGET_GENERIC_V8 {
            return Err(Errno::EINVAL);
        }
        if init.features[1..].iter().any(|word| *word != 0) || init.features[0] >= known {
            return Err(Errno::ENOENT);
        }
        let there = 1 << uapi::FEATURE_POWER_OFF | 1 << uapi::FEATURE_PSCI_0_2;
        let power_off = 1 << uapi::FEATURE_POWER_OFF;
        if init.features[0] & !there != 0 {
            return Err(Errno::EINVAL);
        }
        if let Some(before) = state.init
            && before.features[0] & !power_off != init.features[0] & !power_off
        {
            return Err(Errno::EINVAL);
        }
        state.reset(self.affinity);
        state.init = Some(init);
        self.on.store(init.features[0] & power_off == 0, Release);
        Ok(())
    }

    /// Runs it until there is something for the monitor, or a signal.
    fn run(&self, machine: &Machine, state: &mut State) -> Result<usize> {
        if let Some(access) = state.pending.take() {
            access.complete(self.page.mmio_data(), &mut state.guest.registers);
        }
        if self.page.immediate_exit() {
            return Err(Errno::EINTR);
        }
        loop {
            if current().signal_due() {
                self.exits.count(stats::Exit::Signal);
                self.page.set_reason(uapi::EXIT_INTR);
                return Err(Errno::EINTR);
            }
            sched::cond_resched();
            if !self.is_on() {
                // A signal ends the wait, and is found above.
                let _ = self.changed.wait_interruptible(|| self.is_on(), None);
                continue;
            }
            if let Some((entry, argument)) = self.start.lock().take() {
                state.reset(self.affinity);
                state.guest.registers.pc = entry;
                state.guest.registers.x[0] = argument;
            }
            let exit = self.enter(machine, state);
            match exit {
                Exit::Again => {}
                Exit::Waits => self.wait(machine, state),
                Exit::Yields => sched::yield_now(),
                Exit::Debug => state.guest.debug.give(),
                Exit::Undefined => abort::undefined(&mut state.guest),
                Exit::Memory(access) => {
                    let access = access.resolve(machine, &self.page, &mut state.guest)?;
                    self.exits.count(match access {
                        Some(_) => stats::Exit::Monitor,
                        None => stats::Exit::Memory,
                    });
                    if let Some(access) = access {
                        state.pending = Some(access);
                        return Ok(0);
                    }
                }
                Exit::Event(kind) => {
                    machine.stop();
                    self.page.set_event(kind);
                    return Ok(0);
                }
            }
        }
    }

    /// Waits for an interrupt, a signal, or to be turned off.
    fn wait(&self, machine: &Machine, state: &State) {
        let shared = machine.vgic().and_then(|vgic| vgic.shared());
        let due = || {
            let interrupts =
                shared.is_some_and(|shared| gic::is_due(&self.private, shared, state.place));
            interrupts || !self.is_on()
        };
        let deadline = gic::next_timer(&self.private, &state.guest).filter(|_| shared.is_some());
        // Whatever ends the wait is found when the guest is entered.
        _ = self.changed.wait_interruptible(due, deadline);
    }

    /// Runs it until something cannot be answered at once.
    fn enter(&self, machine: &Machine, state: &mut State) -> Exit {
        // Published when the first virtual CPU ran.
        let Some(directory) = state.reader.get(&machine.directory) else {
            return Exit::Again;
        };
        self.cpu.store(arch::cpu::this().index(), SeqCst);
        let gic = state
            .interface
            .as_mut()
            .zip(machine.vgic())
            .and_then(|(interface, vgic)| {
                let (shared, frames) = (vgic.shared()?, vgic.frames()?);
                gic::enter(interface, &state.guest, &self.private, shared);
                Some(Gic {
                    shared,
                    frames,
                    interface,
                })
            });
        let mut context = Context::new(self, directory, gic);
        let (mut exit, mut hosts) = (Exit::Again, None);
        state.guest.run(&machine.memory, |registers, left| {
            match left {
                Left::Trap => exit = exit::answer(&mut context, registers),
                Left::Interrupt => {
                    self.exits.count(stats::Exit::Interrupt);
                    hosts = context.interrupted();
                }
                Left::Error => return false,
            }
            context.accept();
            matches!(exit, Exit::Again)
                && hosts.is_none()
                && self.is_on()
                && current().arch.work.load(Relaxed) == 0
        });
        context.end();
        self.cpu.store(NOWHERE, SeqCst);
        if let Some(interrupt) = hosts {
            arch::irq::handle(interrupt);
            arch::irq::service();
        }
        exit
    }
}

impl State {
    fn reset(&mut self, affinity: u64) {
        let offset = self.guest.counter_offset;
        let controller = self.guest.controller.clone();
        self.guest = Guest::new();
        (self.guest.affinity, self.guest.counter_offset) = (affinity, offset);
        self.guest.controller = controller;
        self.pending = None;
    }
}

/// The file of a virtual CPU.
pub struct Handle {
    machine: Arc<Machine>,
    vcpu: Arc<Vcpu>,
}

impl Handle {
    /// Of a virtual CPU of this machine.
    pub fn new(machine: Arc<Machine>, vcpu: Arc<Vcpu>) -> Self {
        Handle { machine, vcpu }
    }

    fn one_register(&self, state: &mut State, argument: usize, set: bool) -> Result<usize> {
        let register: OneRegister = UserPtr::new(argument).read()?;
        let address = register.address as usize;
        match set {
            true => registers::set(&mut state.guest, register.id, address)?,
            false => registers::get(&mut state.guest, register.id, address)?,
        }
        Ok(0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The directory holds the virtual CPU, so that it must not hold the directory.
        self.vcpu.state.lock().reader = Reader::new();
    }
}

impl FileOps for Handle {
    fn is_stream(&self) -> bool {
        true
    }

    fn memory(&self) -> Memory<'_> {
        Memory::Pages(&*self.vcpu.page.source)
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if !self.machine.is_mine() {
            return Err(Errno::EIO);
        }
        let vcpu = &*self.vcpu;
        let mut state = vcpu.state.lock();
        let state = &mut *state;
        match request {
            uapi::ARM_VCPU_INIT => {
                vcpu.init(state, UserPtr::new(argument).read()?)?;
                return Ok(0);
            }
            uapi::GET_MP_STATE => {
                let value = if vcpu.is_on() {
                    uapi::MP_STATE_RUNNABLE
                } else {
                    uapi::MP_STATE_STOPPED
                };
                UserPtr::new(argument).write(&value)?;
                return Ok(0);
            }
            uapi::SET_MP_STATE => {
                match UserPtr::<u32>::new(argument).read()? {
                    uapi::MP_STATE_RUNNABLE => vcpu.on.store(true, Release),
                    uapi::MP_STATE_STOPPED => vcpu.on.store(false, Release),
                    _ => return Err(Errno::EINVAL),
                }
                return Ok(0);
            }
            uapi::GET_STATS_FD => {
                return add_file("kvm-vcpu-stats", try_arc(Statistics(self.vcpu.clone()))?);
            }
            _ => {}
        }
        let known = [
            uapi::RUN,
            uapi::GET_ONE_REG,
            uapi::SET_ONE_REG,
            uapi::GET_REG_LIST,
        ];
        if !known.contains(&request) {
            return Err(Errno::EINVAL);
        }
        if request == uapi::RUN && argument != 0 {
            return Err(Errno::EINVAL);
        }
        if state.init.is_none() {
            return Err(Errno::ENOEXEC);
        }
        match request {
            uapi::RUN => {
                if state.interface.is_none()
                    && let Some((_, place)) = self.machine.begin(&self.vcpu)?
                {
                    let lists = controller::list_registers();
                    state.interface = Some(Interface::new(place, lists));
                    state.guest.controller.present = true;
                    state.place = place;
                }
                vcpu.run(&self.machine, state)
            }
            uapi::GET_REG_LIST => registers::list(argument),
            _ => self.one_register(state, argument, request == uapi::SET_ONE_REG),
        }
    }
}
