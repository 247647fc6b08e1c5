//! Hardware support for hypervisors: the world switch, a guest's registers, and its memory.

/// Generates functions that access registers by number, since instructions can only name them as
/// constants.
macro_rules! family {
    ($(#[$doc:meta])* $read:ident, $(#[$write_doc:meta])* $write:ident: $($number:literal $name:literal)*) => {
        $(#[$doc])*
        #[inline]
        pub fn $read(number: usize) -> u64 {
            match number { $($number => read!($name) as u64,)* _ => 0 }
        }

        $(#[$write_doc])*
        #[inline]
        pub fn $write(number: usize, value: u64) {
            // SAFETY: affects only a guest, when it is next entered, or a program that is debugged.
            unsafe { match number { $($number => write!($name, value),)* _ => {} } }
        }
    };
}

pub mod controller;
pub(super) mod debug;
pub mod error;
pub mod interrupt;
mod stage2;
pub mod sve;
mod system;
pub mod timer;
pub(super) mod vmid;
mod world;

pub use controller::Controller;
pub use debug::{Debug, points};
pub use stage2::{Stage2, most_address_bits};
pub use sve::Sve;
pub use system::{Keys, Name, System, encoding, is_translation};
pub use world::{Left, Registers};

use super::fp::{self, FpState};
use super::gic;
use super::irq;
use super::sysreg::{at_el2, isb, read, write};
use crate::sync::lockdep::NoSleep;

/// HCR_EL2 while a guest runs: stage 2 translation; set/way operations also invalidate; interrupts
/// and SErrors are routed to the host; maintenance is broadcast in the inner-shareable domain; WFI,
/// ID registers, SMC, implementation-defined registers, auxiliary control and set/way operations
/// trap; EL1 is AArch64; the host is at EL2; LORegion and error record registers trap, which guests
/// do not have. External aborts of a guest's accesses stay in the guest (no TEA): the host cannot
/// handle them.
const HCR: u64 = 1
    | 1 << 1
    | 0b111 << 3
    | 1 << 9
    | 1 << 10
    | 1 << 13
    | 0b111 << 18
    | 1 << 21
    | 1 << 22
    | 1 << 31
    | 1 << 34
    | 1 << 35
    | 1 << 36;
/// HCR_EL2.APK and API: pointer authentication keys and instructions do not trap.
const AUTHENTICATION: u64 = 0b11 << 40;
/// HCR_EL2.TVM: writes of EL1's translation registers trap.
const TRAP_TRANSLATION: u64 = 1 << 26;
/// SCTLR_EL1.M and C: the MMU and with it the caches are on.
const CACHES_ON: u64 = 1 << 2 | 1;
/// HCR_EL2.TWE: WFE traps too.
const TRAP_WAIT_FOR_EVENT: u64 = 1 << 14;
/// HCR_EL2.VSE: an SError is pending in the guest.
const ERROR_PENDING: u64 = 1 << 8;
/// MDCR_EL2 while a guest runs: the OS lock, performance monitors, statistical profiling and trace
/// filters trap; the host's HPMN is kept.
const MDCR: usize = 1 << 19 | 1 << 14 | 0b11 << 10 | 0b11 << 5;
/// CPTR_EL2.FPEN, at the position of CPACR_EL1.FPEN: FP and SIMD registers do not trap.
const FP_ON: usize = 0b11 << 20;
/// CPTR_EL2.TTA and TAM: trace registers and activity monitors trap.
const OTHERS_TRAP: usize = 1 << 28 | 1 << 30;
/// ICC_SRE_EL2: system register access to the CPU interface, also for guests (Arm IHI 0069,
/// 12.2.24).
const BY_REGISTERS: usize = 0b1111;

/// ID_AA64PFR0_EL1.GIC: the CPU interface has system registers.
const CONTROLLER_FIELD: usize = 24;

/// Whether guests can run here.
pub fn available() -> bool {
    at_el2() && stage2::possible() && read!("id_aa64pfr0_el1") >> CONTROLLER_FIELD & 0xf != 0
}

/// ID_AA64PFR0_EL1.RAS: SErrors have syndromes.
const RAS_FIELD: usize = 28;

/// Whether an SError that is injected into a guest can have a syndrome.
pub fn errors_have_syndromes() -> bool {
    read!("id_aa64pfr0_el1") >> RAS_FIELD & 0xf != 0
}

/// ID_AA64MMFR1_EL1.HCX; HCRX_EL2.MSCEn and MCE2: memory copy and set instructions are enabled in
/// guests, and their exceptions are routed to EL2.
const HCRX_FIELD: usize = 40;
const COPIES: usize = 1 << 11 | 1 << 10;

/// The value of a register that guests read from this CPU, by its encoding.
pub fn own(register: u16) -> Option<u64> {
    const CACHE_TYPE: u16 = encoding(3, 3, 0, 0, 1);
    const CACHE_LEVELS: u16 = encoding(3, 1, 0, 0, 1);
    const MODEL: u16 = encoding(3, 0, 0, 0, 0);
    const REVISION: u16 = encoding(3, 0, 0, 0, 6);
    const AUXILIARY: u16 = encoding(3, 1, 0, 0, 7);
    let value = match register {
        CACHE_TYPE => read!("ctr_el0"),
        CACHE_LEVELS => read!("clidr_el1"),
        MODEL => read!("midr_el1"),
        REVISION => read!("revidr_el1"),
        AUXILIARY => read!("aidr_el1"),
        _ => return None,
    };
    Some(value as u64)
}

/// Enables the instructions of FEAT_MOPS for guests on this CPU, if all CPUs have them.
pub(super) fn allow_copies(everywhere: bool) {
    if available() && read!("id_aa64mmfr1_el1") >> HCRX_FIELD & 0xf != 0 {
        // HCRX_EL2. SAFETY: affects only guests.
        unsafe { write!("S3_4_C1_C2_2", if everywhere { COPIES } else { 0 }) };
    }
}

fn set_error_syndrome(syndrome: u64) {
    if errors_have_syndromes() {
        // VSESR_EL2. SAFETY: affects only a guest.
        unsafe { write!("S3_4_C5_C2_3", syndrome) };
    }
}

/// Initializes this CPU for guests, whose interrupt controllers interrupt the host through
/// `maintenance`.
pub(super) fn start_cpu(maintenance: Option<u32>) {
    if !available() {
        return;
    }
    timer::stop();
    // SAFETY: no guest runs, and the host already uses system register access.
    unsafe {
        write!("S3_4_C12_C9_5", BY_REGISTERS);
        write!("S3_4_C12_C11_0", 0usize);
    }
    timer::give_physical(true);
    isb();
    let timers = [timer::VIRTUAL, timer::PHYSICAL];
    timers
        .into_iter()
        .chain([irq::KICK])
        .chain(maintenance)
        .for_each(gic::enable);
}

/// The hardware state of a virtual CPU while it runs.
#[repr(C)]
pub struct Guest {
    /// General registers, and the last exit. First, so that each exit finds them without an address
    /// computation.
    pub registers: Registers,
    /// System registers.
    pub system: System,
    /// FP and SIMD registers; only FPCR and FPSR for a guest with SVE, whose vectors are in `sve`.
    pub fp: FpState,
    /// The SVE registers, if the guest has SVE.
    pub sve: Option<Sve>,
    /// The keys of pointer authentication, if the guest has it.
    pub keys: Option<Keys>,
    /// The program's FP and SIMD registers, while the guest's are in the CPU.
    program: FpState,
    /// The interface of the interrupt controller, without list registers.
    pub controller: Controller,
    /// The debug registers.
    pub debug: Debug,
    /// The guest's value of MPIDR_EL1.
    pub mpidr: u64,
    /// The offsets of its counters.
    pub offsets: timer::Offsets,
    /// SPSR_abt, _und, _irq and _fiq, for a 32-bit EL1, which no guest has; but VMMs save and
    /// restore them.
    pub banked: [u64; 4],
    /// Other registers that no guest has, but VMMs save and restore.
    pub kept: [u64; 6],
    /// The syndrome of a pending SError.
    pub error: Option<u64>,
    /// DISR_EL1: the SError that an ESB deferred, if SErrors have syndromes.
    pub deferred: u64,
    /// Whether writes of EL1's translation registers trap, since they may turn the guest's caches
    /// on, or off after it cleaned them by set and way.
    watches_caches: bool,
    /// Whether other threads want its CPU, so that it is left when it executes WFE.
    pub shares_cpu: bool,
}

/// The next step after a guest was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Enter it again.
    Enter,
    /// Enter it again with its FP and SIMD registers, whose use trapped.
    GiveFp,
    /// Return to the host.
    Leave,
}

/// Handles a guest's exits.
pub trait ExitHandler {
    /// Decides how to continue after the guest was left. Its context is still in this CPU, so this
    /// must neither sleep nor access program memory nor invalidate translations of the kernel.
    /// Kernels that check sleeps, or with debug assertions, panic otherwise.
    fn handle(&mut self, registers: &mut Registers, left: Left) -> Next;
}

impl Guest {
    /// The state at reset.
    pub fn new() -> Self {
        Guest {
            registers: Registers::new(),
            system: System::RESET,
            fp: FpState::new(),
            sve: None,
            keys: None,
            program: FpState::new(),
            controller: Controller::default(),
            debug: Debug::default(),
            mpidr: 0,
            offsets: timer::Offsets::default(),
            banked: [0; 4],
            // FPEXC32_EL2 has RES1 bits.
            kept: [0, 0, 0, 0, 0, 0x700],
            error: None,
            deferred: 0,
            watches_caches: !stage2::forces_write_back(),
            shares_cpu: false,
        }
    }

    /// Performs a trapped write to a translation register of EL1 for the guest. Returns whether
    /// this turned its caches on or off, so that its memory must be removed from the host's caches.
    pub fn write_translation(&mut self, encoding: u16, value: u64) -> bool {
        let are_on = |system: &System| system.get(Name::Sctlr) & CACHES_ON == CACHES_ON;
        let before = are_on(&self.system);
        if let Some(register) = self.system.by_encoding(encoding) {
            *register = value;
        }
        let now = are_on(&self.system);
        self.watches_caches &= !now;
        before != now
    }

    /// Handles a clean or invalidate by set and way, which does not say which memory is meant.
    /// Returns whether all the guest's memory must be removed from the caches now; while its cache
    /// state is watched, that happens when the caches are turned on or off (as in Linux).
    pub fn clean_by_set_and_way(&mut self) -> bool {
        !stage2::forces_write_back() && !core::mem::replace(&mut self.watches_caches, true)
    }

    /// Runs the guest until `handler` leaves it. `vcpu` is its number among those that share the
    /// memory. Returns the last reason why the guest was left.
    ///
    /// FP and SIMD registers remain the program's until the guest uses its own: many guests are
    /// left before they do.
    pub fn run(&mut self, memory: &Stage2, vcpu: u32, handler: &mut impl ExitHandler) -> Left {
        // For programs this is a system call, which need not preserve vectors.
        crate::arch::task::state().end_sve();
        let (thread, compat) = (read!("tpidr_el0"), read!("tpidrro_el0"));
        let features = read!("cpacr_el1");
        let (host, vectors, traps) = (read!("hcr_el2"), read!("vbar_el1"), read!("mdcr_el2"));
        // SAFETY: these affect only the guest.
        unsafe {
            write!("vmpidr_el2", self.mpidr);
            write!("cntvoff_el2", self.offsets.virt);
            write!("mdcr_el2", traps | MDCR | self.debug.traps());
        }
        let has_errors = errors_have_syndromes();
        if has_errors {
            // VDISR_EL2. SAFETY: affects only the guest.
            unsafe { write!("S3_4_C12_C1_1", self.deferred) };
        }
        let offset = self.offsets.phys;
        if offset != 0 {
            timer::give_physical(false);
            let deadline = self.system.get(Name::PhysicalDeadline);
            self.registers.deadline = deadline;
            let hosts = timer::hosts_deadline(deadline, offset);
            self.system.set(Name::PhysicalDeadline, hosts);
        }
        self.system.load();
        self.controller.load();
        let has_points = self.debug.is_loaded();
        if has_points {
            self.debug.load();
        }
        memory.load();
        let guest_vectors = &raw const world::guest_vectors as usize;
        let mut configuration = HCR | memory.configuration();
        if self.watches_caches {
            configuration |= TRAP_TRANSLATION;
        }
        if self.shares_cpu {
            configuration |= TRAP_WAIT_FOR_EVENT;
        }
        if let Some(keys) = &self.keys {
            configuration |= AUTHENTICATION;
            keys.load();
        }
        if let Some(syndrome) = self.error {
            configuration |= ERROR_PENDING;
            set_error_syndrome(syndrome);
        }
        let no_sleep = NoSleep::begin();
        // SAFETY: nothing from here until both are restored accesses program memory, see
        // `ExitHandler`, and the vectors are those that leave a guest; interrupts are masked.
        unsafe {
            write!("vbar_el1", guest_vectors);
            write!("hcr_el2", configuration);
            write!("cpacr_el1", features & !(FP_ON | sve::ON) | OTHERS_TRAP);
        }
        if memory.others_ran(vcpu) {
            stage2::flush_local();
        }
        let mut has_fp = false;
        let left = loop {
            // SAFETY: the guest's context, translation, vectors and configuration were set above.
            let left = unsafe { world::enter(&raw mut self.registers) };
            match handler.handle(&mut self.registers, left) {
                Next::Enter => {}
                Next::GiveFp => {
                    let own = if self.sve.is_some() { sve::ON } else { 0 };
                    // SAFETY: affects only the guest, as the kernel does not use these registers.
                    unsafe { write!("cpacr_el1", features & !sve::ON | own | OTHERS_TRAP) };
                    isb();
                    fp::save(&mut self.program);
                    fp::load(&self.fp);
                    self.sve.iter().for_each(Sve::load);
                    has_fp = true;
                }
                Next::Leave => break left,
            }
        };
        if self.error.is_some() && read!("hcr_el2") as u64 & ERROR_PENDING == 0 {
            self.error = None;
        }
        if has_fp {
            fp::save(&mut self.fp);
            self.sve.iter_mut().for_each(Sve::save);
            fp::load(&self.program);
        }
        // SAFETY: the host's own values; no guest runs.
        unsafe {
            write!("hcr_el2", host);
            write!("vbar_el1", vectors);
            write!("cpacr_el1", features);
        }
        isb();
        drop(no_sleep);
        if has_errors {
            self.deferred = read!("S3_4_C12_C1_1") as u64;
            // CPUs with tags have these, too.
            if super::has_tags() {
                super::tags::restore_override();
            }
        }
        self.system.save();
        if offset != 0 {
            timer::give_physical(true);
            let deadline = self.registers.deadline;
            self.system.set(Name::PhysicalDeadline, deadline);
        }
        if let Some(keys) = &mut self.keys {
            keys.save();
            crate::arch::task::state().load_authentication();
        }
        self.controller.save();
        if has_points {
            self.debug.save();
        }
        timer::stop();
        // SAFETY: the host's own values.
        unsafe {
            write!("cntvoff_el2", 0usize);
            write!("mdcr_el2", traps);
            write!("tpidr_el0", thread);
            write!("tpidrro_el0", compat);
        }
        isb();
        left
    }
}
