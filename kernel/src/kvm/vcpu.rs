//! A virtual CPU: its state, and KVM_RUN.

use crate::task::CpuParts;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use affinity::Affinity;
use vgic::{Interface, Presence, Private};

use super::abort::{self, Access, Resolved};
use super::capabilities;
use super::context::{Context, Gic, VcpuConfig};
use super::directory::Reader;
use super::exit::{self, Exit};
use super::ioevents;
use super::kvm_run::RunPage;
use super::psci;
use super::stats::{self, Exits};
use super::steal::{self, Stolen};
use super::sysreg;
use super::uapi::{self, VcpuInit};
use super::vgic as gic;
use super::vm::Machine;
use crate::arch::irq::Interrupted;
use crate::arch::virt::interrupt::Hosts;
use crate::arch::virt::{ExitHandler, Guest, Keys, Left, Next, Registers, Sve};
use crate::arch::{self, time};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_box;
use crate::sync::{Mutex, SleepMutex, SleepMutexGuard};
use crate::task::tick;
use crate::task::wait_queue::WaitQueue;
use crate::task::{current, sched, signal, work};

/// The maximum number of virtual CPUs in a machine; their ids are less than this too.
pub const MAX_VCPUS: usize = 512;
/// Reasons not to run: it is off; the VMM suspended it; another virtual CPU holds it.
const OFF: u32 = 1;
const SUSPENDED: u32 = 2;
const HELD: u32 = 4;

/// MPIDR_EL1.RES1.
const MPIDR_RES1: u64 = 1 << 31;

/// A virtual CPU.
pub struct Vcpu {
    /// The id by which the VMM knows it.
    pub id: u32,
    /// Its MPIDR_EL1, which the VMM may change while other virtual CPUs run.
    mpidr: AtomicU64,
    /// Its private interrupts.
    pub private: Private,
    /// Counts its exits.
    pub exits: Exits,
    /// The page that it shares with the VMM.
    pub page: RunPage,
    /// The state of its own thread.
    pub state: SleepMutex<State>,
    /// Why it must not run: a bit for off, a bit for suspended, and above them the number of
    /// holders.
    stops: AtomicU32,
    /// The entry point and argument with which another virtual CPU wants to start this one.
    start: Mutex<Option<(u64, u64)>>,
    /// Woken when one of the above or its interrupts have changed.
    changed: WaitQueue,
    /// The CPU on which it runs.
    presence: Presence,
}

/// State that only its own thread changes.
pub struct State {
    /// The argument of ARM_VCPU_INIT, once it was called.
    pub init: Option<VcpuInit>,
    /// The state that the hardware holds while it runs.
    pub guest: Box<Guest>,
    /// The access that the VMM is to complete.
    pub pending: Option<Access>,
    /// Its handle on the directory.
    pub reader: Reader,
    /// Its handle on the guest's writes that signal eventfds.
    events: ioevents::Reader,
    /// Its list registers, once it has run.
    pub interface: Option<Interface>,
    /// The signals that are blocked while it runs, if the VMM has set them.
    pub mask: Option<u64>,
    /// The stolen time that the guest sees.
    pub stolen: Stolen,
    /// Its index in the machine's table.
    pub place: u16,
}

impl Vcpu {
    /// Creates the virtual CPU `id`, with the affinity that Linux gives it.
    pub fn new(id: u32) -> Result<Self> {
        let mpidr = Affinity::of_vcpu_id(id).to_mpidr() | MPIDR_RES1;
        let mut guest = try_box(Guest::new())?;
        guest.mpidr = mpidr;
        Ok(Vcpu {
            id,
            mpidr: AtomicU64::new(mpidr),
            private: Private::new(),
            exits: Exits::default(),
            page: RunPage::new()?,
            state: SleepMutex::new(State {
                init: None,
                guest,
                pending: None,
                reader: Reader::new(),
                events: ioevents::Reader::new(),
                interface: None,
                mask: None,
                stolen: Stolen::default(),
                place: 0,
            }),
            stops: AtomicU32::new(OFF),
            start: Mutex::new(None),
            changed: WaitQueue::new(),
            presence: Presence::new(),
        })
    }

    /// The value of MPIDR_EL1.
    pub fn mpidr(&self) -> u64 {
        self.mpidr.load(Relaxed)
    }

    /// The affinity that MPIDR_EL1 gives it.
    pub fn affinity(&self) -> Affinity {
        Affinity::from_mpidr(self.mpidr())
    }

    /// Replaces the value of MPIDR_EL1, and returns the old one. The caller updates the machine's
    /// directory: [`Machine::set_mpidr`].
    pub fn replace_mpidr(&self, mpidr: u64) -> u64 {
        self.mpidr.swap(mpidr, Relaxed)
    }

    /// The state that only its own thread changes, if nobody uses it now.
    pub fn at_rest(&self) -> Option<SleepMutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// Whether the virtual CPU is on.
    pub fn is_on(&self) -> bool {
        self.stops.load(Acquire) & OFF == 0
    }

    /// Bits for why it must not run; 0 if it may.
    #[inline(always)]
    pub fn stops(&self) -> u32 {
        self.stops.load(Relaxed)
    }

    /// Turns it on, at the address where it was stopped, or off.
    pub fn set_on(&self, on: bool) {
        self.replace_power(if on { 0 } else { OFF });
    }

    fn replace_power(&self, bits: u32) {
        let replaced = |stops| Some(stops & !(OFF | SUSPENDED) | bits);
        _ = self.stops.fetch_update(SeqCst, Acquire, replaced);
    }

    /// The power state (on, off or suspended) as KVM_GET_MP_STATE reports it.
    pub fn power(&self) -> u32 {
        match self.stops.load(Acquire) & (OFF | SUSPENDED) {
            0 => uapi::MP_STATE_RUNNABLE,
            SUSPENDED => uapi::MP_STATE_SUSPENDED,
            _ => uapi::MP_STATE_STOPPED,
        }
    }

    /// Sets the power state (KVM_SET_MP_STATE).
    ///
    /// # Errors
    /// EINVAL.
    pub fn set_power(&self, power: u32) -> Result<()> {
        let bits = match power {
            uapi::MP_STATE_RUNNABLE => 0,
            uapi::MP_STATE_STOPPED => OFF,
            uapi::MP_STATE_SUSPENDED => SUSPENDED,
            _ => return Err(Errno::EINVAL),
        };
        self.replace_power(bits);
        Ok(())
    }

    /// Turns the virtual CPU off, and makes it notice.
    pub fn stop(&self) {
        self.set_on(false);
        self.leave_guest();
        self.changed.wake_all();
    }

    /// Whether some CPU runs its guest now.
    pub fn is_running(&self) -> bool {
        self.presence.cpu().is_some()
    }

    /// Keeps the virtual CPU from running its guest until it is released.
    pub fn hold(&self) {
        self.stops.fetch_add(HELD, SeqCst);
        self.leave_guest();
    }

    /// Ends a [`Vcpu::hold`].
    pub fn unhold(&self) {
        self.stops.fetch_sub(HELD, SeqCst);
        self.changed.wake_all();
    }

    fn leave_guest(&self) {
        if let Some(cpu) = self.presence.cpu() {
            arch::smp::kick(cpu);
        }
    }

    /// Requests a refresh after its interrupts changed: it refreshes them before it continues.
    #[inline]
    pub fn request_refresh(&self) {
        if self.private.request_refresh() {
            self.notify();
        }
    }

    /// Makes the virtual CPU notice new interrupts, whether it runs on another CPU or sleeps.
    #[inline]
    pub fn notify(&self) {
        match self.presence.cpu() {
            None => self.changed.wake_all(),
            Some(cpu) if cpu == arch::cpu::this().index() => {}
            Some(cpu) => arch::smp::kick_guest(cpu),
        }
    }

    /// Turns it on at `entry` with `argument` in x0; false if it is on already.
    pub fn start(&self, entry: u64, argument: u64) -> bool {
        let mut start = self.start.lock();
        if self.is_on() {
            return false;
        }
        *start = Some((entry, argument));
        self.set_on(true);
        drop(start);
        self.changed.wake_all();
        true
    }

    /// Resets it to the entry point that another CPU set, if one did.
    pub fn begin(&self, state: &mut State) {
        let start = self.start.lock().take();
        if let Some((entry, argument)) = start {
            state.reset(self.mpidr());
            state.guest.registers.pc = entry;
            state.guest.registers.x[0] = argument;
        }
    }

    /// Resets it with the features that the VMM asks for (KVM_ARM_VCPU_INIT).
    pub fn init(&self, machine: &Machine, state: &mut State, init: VcpuInit) -> Result<()> {
        let known = 1 << uapi::FEATURES;
        if init.target != uapi::TARGET_GENERIC_V8 {
            return Err(Errno::EINVAL);
        }
        if init.features[1..].iter().any(|word| *word != 0) || init.features[0] >= known {
            return Err(Errno::ENOENT);
        }
        let power_off = 1 << uapi::FEATURE_POWER_OFF;
        let authentication = 1 << uapi::FEATURE_ADDRESS_AUTH | 1 << uapi::FEATURE_GENERIC_AUTH;
        let mut there = power_off | 1 << uapi::FEATURE_PSCI_0_2;
        if capabilities::has_sve() {
            there |= 1 << uapi::FEATURE_SVE;
        }
        if capabilities::has_authentication() {
            there |= authentication;
        }
        let authenticates = init.features[0] & authentication;
        if init.features[0] & !there != 0 || ![0, authentication].contains(&authenticates) {
            return Err(Errno::EINVAL);
        }
        machine.record_features(init.features[0] & !power_off)?;
        if state.init.is_some() {
            // The VMM may start another guest, whose caches are off.
            machine.memory.translation.reset(sched::cond_resched);
        }
        state.reset(self.mpidr());
        let finalized = state.guest.sve.as_ref().is_some_and(Sve::is_finalized);
        if init.has(uapi::FEATURE_SVE) && !finalized {
            state.guest.sve = Some(Sve::new());
        }
        state.guest.keys = (authenticates != 0).then_some(Keys::RESET);
        state.init = Some(init);
        self.set_on(init.features[0] & power_off == 0);
        Ok(())
    }

    /// Runs it with the signals blocked that the VMM has set (KVM_SET_SIGNAL_MASK).
    pub fn run(&self, machine: &Machine, state: &mut State) -> Result<usize> {
        let run = |state| current().without_debug(|| self.run_guest(machine, state));
        let Some(mask) = state.mask else {
            return run(state);
        };
        let before = current().blocked();
        signal::set_blocked(mask);
        let result = run(state);
        signal::set_blocked(before);
        result
    }

    /// Runs it until there is an exit for the VMM, or a signal.
    fn run_guest(&self, machine: &Machine, state: &mut State) -> Result<usize> {
        let steps = state.guest.debug.steps();
        if let Some(access) = state.pending.take() {
            // If the guest is single-stepped, completing the access was the step.
            access.complete(self.page.mmio_data(), &mut state.guest.registers);
        } else if steps {
            state.guest.registers.step();
        }
        if self.page.immediate_exit() {
            return Err(Errno::EINTR);
        }
        self.page.begin();
        loop {
            if let Err(error) = work::guest_work() {
                self.exits.count(stats::ExitKind::Signal);
                self.page.set_reason(uapi::EXIT_INTR);
                return Err(error);
            }
            // Offsets set by another thread take effect here.
            state.guest.offsets = machine.counters.offsets();
            let stops = self.stops.load(Acquire);
            if stops == SUSPENDED {
                // While suspended by the VMM, it reports to the VMM whatever would wake it.
                self.wait(machine, state);
                if self.has_woken(machine, state) {
                    self.page.set_event(uapi::SYSTEM_EVENT_WAKEUP, None);
                    return Ok(0);
                }
                continue;
            }
            if stops != 0 {
                // A signal ends the wait, and is handled above.
                let may_run = || self.stops.load(Acquire) & !SUSPENDED == 0;
                let _ = self.changed.wait_interruptible(may_run, None);
                continue;
            }
            self.begin(state);
            steal::notify(machine, state);
            let exit = self.enter(machine, state);
            match exit {
                Exit::Again | Exit::Fp => {}
                Exit::Waits => self.wait(machine, state),
                Exit::Yields => sched::yield_now(),
                Exit::StolenTime => {
                    let address =
                        steal::begin(machine, state).unwrap_or(psci::NOT_SUPPORTED as u64);
                    state.guest.registers.x[0] = address;
                }
                Exit::Debug => sysreg::debug(&mut state.guest),
                Exit::Caches => sysreg::caches(&machine.memory.translation, &mut state.guest),
                Exit::Debugged => {
                    let registers = &state.guest.registers;
                    self.page.set_debug(registers.syndrome, registers.address);
                    return Ok(0);
                }
                Exit::Halts => {
                    let access = Access::of(&state.guest.registers);
                    machine.halted(|| gic::access_alone(machine, &access, state));
                }
                Exit::Error => abort::hardware_error(&mut state.guest),
                Exit::Undefined => abort::undefined(&mut state.guest),
                Exit::Memory => {
                    let access = Access::of(&state.guest.registers);
                    match access.resolve(machine, &self.page, &mut state.guest)? {
                        Resolved::Again => self.exits.count(stats::ExitKind::Memory),
                        Resolved::Vmm(access) => {
                            self.exits.count(stats::ExitKind::MmioVmm);
                            state.pending = Some(access);
                            return Ok(0);
                        }
                        Resolved::Notified => {
                            self.exits.count(stats::ExitKind::MmioVmm);
                            return Ok(0);
                        }
                    }
                }
                Exit::Off | Exit::Reset | Exit::Reset2 => {
                    machine.stop();
                    let (event, how) = match exit {
                        Exit::Off => (uapi::SYSTEM_EVENT_SHUTDOWN, 0),
                        Exit::Reset => (uapi::SYSTEM_EVENT_RESET, 0),
                        _ => (uapi::SYSTEM_EVENT_RESET, uapi::RESET2),
                    };
                    self.page.set_event(event, Some(how));
                    return Ok(0);
                }
                Exit::Suspends => {
                    self.page.set_event(uapi::SYSTEM_EVENT_SUSPEND, None);
                    return Ok(0);
                }
                Exit::Calls { flags } => {
                    let function = state.guest.registers.x[0] as u32;
                    self.page.set_hypercall(function, flags);
                    return Ok(0);
                }
            }
        }
    }

    /// Waits for an interrupt, a signal, or to be turned off.
    fn wait(&self, machine: &Machine, state: &State) {
        let shared = machine.vgic().and_then(|vgic| vgic.shared());
        // A vCPU that was asked to refresh is not asked again until it has done so, on its way into
        // the guest.
        let due = || {
            let interrupts = self.private.has_arrived()
                || shared.is_some_and(|shared| gic::is_due(&self.private, shared, state.place));
            match self.stops.load(Acquire) {
                0 => interrupts || state.guest.error.is_some(),
                // A suspended vCPU takes no error before the VMM lets it run, and only interrupts
                // wake it.
                SUSPENDED => interrupts,
                _ => true,
            }
        };
        let deadline = gic::next_timer(&self.private, &state.guest).filter(|_| shared.is_some());
        // Whatever ended the wait is found when the guest is entered.
        _ = self.changed.wait_interruptible(due, deadline);
    }

    /// Whether the virtual CPU has an interrupt to take after it waited.
    fn has_woken(&self, machine: &Machine, state: &mut State) -> bool {
        let shared = machine.vgic().and_then(|vgic| vgic.shared());
        let Some((shared, interface)) = shared.zip(state.interface.as_mut()) else {
            return false;
        };
        interface.accept(&self.private);
        let timer = gic::next_timer(&self.private, &state.guest);
        timer.is_some_and(|due| due <= time::now_ticks())
            || gic::is_due(&self.private, shared, state.place)
    }

    /// Runs the guest until an exit cannot be handled at once.
    fn enter(&self, machine: &Machine, state: &mut State) -> Exit {
        let has_psci = state.has_psci();
        let config = VcpuConfig {
            has_psci,
            refused: match machine.calls.is_set() {
                true => 0,
                false => psci::refused(has_psci),
            },
            stolen_time: state.stolen.address.is_some(),
            offset: state.guest.offsets.phys,
        };
        self.presence.enter(arch::cpu::this().index());
        if self.stops.load(SeqCst) != 0 {
            // The thread that set the reason to stop did not see this vCPU running.
            self.presence.leave();
            return Exit::Again;
        }
        // Published when the first virtual CPU ran. Read while this one is seen to run: before
        // another is published, all of them leave.
        let Some(directory) = state.reader.get(&machine.directory) else {
            self.presence.leave();
            return Exit::Again;
        };
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
        state.guest.shares_cpu = arch::cpu::this().sched().waiting() != 0;
        let thread = current();
        let mut run = Run {
            context: Context::new(
                &thread,
                self,
                machine,
                directory,
                &mut state.events,
                gic,
                config,
            ),
            exit: Exit::Again,
            hosts: None,
        };
        let translation = &machine.memory.translation;
        state.guest.run(translation, self.id, &mut run);
        let Run {
            context,
            exit,
            hosts,
        } = run;
        context.end();
        self.presence.leave();
        if let Some(interrupt) = hosts {
            interrupt.handle();
            arch::irq::service(Interrupted::Program);
        }
        // A timer that the hardware cannot signal is noticed when the guest is entered.
        let ticks = state.guest.offsets.is_ahead();
        let goes_on = exit == Exit::Again && self.stops() == 0 && !ticks;
        if goes_on && current().arch.work.load(Relaxed) == 0 {
            arch::cpu::this().tick().pause();
        } else {
            tick::restart(arch::cpu::this());
        }
        exit
    }
}

/// An entry into the guest, and the reason why it ended.
struct Run<'a> {
    context: Context<'a>,
    exit: Exit,
    hosts: Option<Hosts>,
}

impl ExitHandler for Run<'_> {
    #[inline(always)]
    fn handle(&mut self, registers: &mut Registers, left: Left) -> Next {
        match left {
            Left::Trap => match exit::handle_exit(&mut self.context, registers) {
                Exit::Again => self.context.next(),
                Exit::Fp => Next::GiveFp,
                other => {
                    self.exit = other;
                    Next::Leave
                }
            },
            Left::Interrupt => {
                self.hosts = self.context.interrupted();
                match self.hosts {
                    Some(_) => Next::Leave,
                    None => self.context.next(),
                }
            }
            Left::Error => {
                self.exit = Exit::Error;
                Next::Leave
            }
        }
    }
}

impl State {
    /// Whether the VMM asked for PSCI version 0.2 or newer.
    pub fn has_psci(&self) -> bool {
        self.init
            .is_some_and(|init| init.has(uapi::FEATURE_PSCI_0_2))
    }

    /// Checks that everything is finalized that needs KVM_ARM_VCPU_FINALIZE.
    ///
    /// # Errors
    /// EPERM
    pub fn check_final(&self) -> Result<()> {
        match &self.guest.sve {
            Some(sve) if !sve.is_finalized() => Err(Errno::EPERM),
            _ => Ok(()),
        }
    }

    fn reset(&mut self, mpidr: u64) {
        let offsets = self.guest.offsets;
        let controller = self.guest.controller.clone();
        let debug = self.guest.debug.at_reset();
        let keys = self.guest.keys.as_ref().map(|_| Keys::RESET);
        let mut sve = self.guest.sve.take();
        sve.iter_mut().for_each(Sve::reset);
        *self.guest = Guest::new();
        (self.guest.mpidr, self.guest.offsets) = (mpidr, offsets);
        (self.guest.controller, self.guest.debug) = (controller, debug);
        (self.guest.sve, self.guest.keys) = (sve, keys);
        self.pending = None;
    }
}
