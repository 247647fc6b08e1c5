//! What a hypervisor needs of the hardware: the world switch, a guest's registers, and its memory.

mod stage2;
mod system;
mod world;

pub use stage2::Stage2;
pub use system::{ENCODINGS, Name, System, encoding};
pub use world::{Left, Registers};

use super::fp::{self, FpState};
use super::sysreg::{at_el2, isb, read, write};

/// HCR_EL2 while a guest runs (Arm ARM D24.2.59): translation; set/way operations act on all; interrupts and system
/// errors are the host's; maintenance reaches the inner-shareable domain; WFI, ID registers, SMC, implementation-defined
/// registers, auxiliary control and set/way operations trap; EL1 is AArch64; the host is at EL2.
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
    | 1 << 34;
/// MDCR_EL2 while a guest runs: debug and performance registers trap, the host's number of counters stays (D24.2.97).
const MDCR: usize = 0b111 << 9 | 0b11 << 5;
/// MPIDR_EL1.RES1.
const MPIDR: u64 = 1 << 31;
/// CNTHCTL_EL2 with E2H: a guest reads the physical counter, and its physical timer traps (D24.2.31).
const TIMERS: usize = 1 << 10;

/// ICH_HCR_EL2 while a guest runs: the interrupt controller's registers trap (Arm IHI 0069, 12.4.10).
const CONTROLLER: usize = 0b111 << 10;
/// ID_AA64PFR0_EL1.GIC: the controller has registers.
const CONTROLLER_FIELD: usize = 24;

/// Whether guests can run here.
pub fn available() -> bool {
    at_el2() && stage2::possible() && read!("id_aa64pfr0_el1") >> CONTROLLER_FIELD & 0xf != 0
}

/// All that the hardware holds for a virtual CPU while it runs.
pub struct Guest {
    /// General registers, and the last exit.
    pub registers: Registers,
    /// System registers.
    pub system: System,
    /// FP and SIMD registers.
    pub fp: FpState,
    /// What MPIDR_EL1's affinity fields read as.
    pub affinity: u64,
    /// What CNTVCT_EL0 is behind CNTPCT_EL0, in ticks.
    pub counter_offset: u64,
}

impl Guest {
    /// At reset.
    pub const fn new() -> Self {
        let registers = Registers {
            x: [0; 31],
            sp: 0,
            pc: 0,
            pstate: 0x3c5,
            syndrome: 0,
            address: 0,
            page: 0,
        };
        Guest {
            registers,
            system: System::RESET,
            fp: FpState::new(),
            affinity: 0,
            counter_offset: 0,
        }
    }

    /// Runs the guest. At each exit `answer` says whether it goes on at once; it must not wait. Returns why the guest was
    /// left last.
    pub fn run(
        &mut self,
        memory: &Stage2,
        mut answer: impl FnMut(&mut Registers, Left) -> bool,
    ) -> Left {
        let mut program = FpState::new();
        fp::save(&mut program);
        fp::load(&self.fp);
        let thread = read!("tpidr_el0");
        let (host, vectors, traps, timers) = (
            read!("hcr_el2"),
            read!("vbar_el1"),
            read!("mdcr_el2"),
            read!("cnthctl_el2"),
        );
        self.system.load();
        memory.load();
        let guest_vectors = &raw const world::guest_vectors as usize;
        // SAFETY: these concern the guest alone.
        unsafe {
            write!("vpidr_el2", read!("midr_el1"));
            write!("vmpidr_el2", self.affinity | MPIDR);
            write!("cntvoff_el2", self.counter_offset);
            write!("cnthctl_el2", TIMERS);
            write!("mdcr_el2", traps | MDCR);
            write!("S3_4_C12_C11_0", CONTROLLER);
        }
        let left = loop {
            // SAFETY: nothing between here and the return from the guest touches a program's memory, and the vectors are
            // those that leave a guest; interrupts are masked.
            let left = unsafe {
                write!("vbar_el1", guest_vectors);
                write!("hcr_el2", HCR);
                isb();
                let left = world::enter(&raw mut self.registers);
                write!("hcr_el2", host);
                write!("vbar_el1", vectors);
                isb();
                left
            };
            if !answer(&mut self.registers, left) {
                break left;
            }
        };
        self.system.save();
        // SAFETY: the host's own again; no guest runs.
        unsafe {
            write!("S3_4_C12_C11_0", 0usize);
            write!("cntvoff_el2", 0usize);
            write!("cnthctl_el2", timers);
            write!("mdcr_el2", traps);
            write!("tpidr_el0", thread);
            // The guest's virtual timer asks for nothing while it is not here.
            write!("S3_5_C14_C3_1", 0usize);
        }
        fp::save(&mut self.fp);
        fp::load(&program);
        isb();
        left
    }
}
