//! Entry into a guest, and its exit (Arm ARM, "Virtualization Host Extensions"). The kernel stays
//! at EL2; the guest has EL1 and EL0. The only system register of the kernel that must be restored
//! on exit is SP_EL0, which points to the per-CPU data.

use core::arch::{asm, global_asm, naked_asm};
use core::mem::offset_of;

use super::super::features::features;
use super::super::frame::Frame;
use super::super::mops;
use super::super::sysreg::{isb, read, write};
use crate::errno::{Errno, Result};

/// A guest's general registers, and the exception registers of its last exit.
#[repr(C)]
#[derive(Clone)]
pub struct Registers {
    /// x0 to x30.
    pub x: [u64; 31],
    /// SP_EL0.
    pub sp: u64,
    /// The address of the next instruction.
    pub pc: u64,
    /// PSTATE. Its mode must be one of a guest's, otherwise the guest would run at the kernel's
    /// level.
    pstate: u64,
    /// ESR_EL2 of the exit.
    pub syndrome: u64,
    /// FAR_EL2 of the last abort or debug exception.
    pub address: u64,
    /// The guest-physical page of the last abort, in the format of HPFAR_EL2.
    pub page: u64,
    /// The guest's CNTP_CVAL_EL0, while it runs with a physical counter different from the host's.
    pub deadline: u64,
}

/// ESR_EL2.IL: the instruction has 32 bits.
const LONG: u64 = 1 << 25;
/// ESR_EL2: the class is below 0x10, for which the syndrome contains the condition of the
/// instruction, unless only PSTATE.IT has it.
const UNCONDITIONAL: u64 = 0b11 << 30;
const HAS_CONDITION: u64 = 1 << 24;
/// PSTATE.T in AArch32 state.
const THUMB: u64 = 1 << 5;
/// PSTATE.PAN and SSBS; and the bits that an exception preserves: the flags, DIT and PAN.
const PAN: u64 = 1 << 22;
const SSBS: u64 = 1 << 12;
const KEPT: u64 = 0b1111 << 28 | 1 << 24 | PAN;
/// SCTLR_EL1.SPAN: an exception does not change PAN. DSSBS: the value of SSBS after an exception.
const SPAN: u64 = 1 << 23;
const DSSBS: u64 = 1 << 44;
/// PSTATE.SS and PSTATE.BTYPE.
const STEP: u64 = 1 << 21;
const BRANCH_TYPE: u64 = 0b11 << 10;
/// PSTATE.M, and its permitted values: EL0, and EL1 with either stack, in AArch64 state; and EL0 in
/// AArch32 state, if CPUs have it.
const MODE: u64 = 0x1f;
const MODES: [u64; 3] = [0, 4, 5];
const USER_32: u64 = 0x10;
/// The number of general registers of AArch32 state at EL0.
const REGISTERS_32: usize = 15;
/// EL1 with its own stack, and everything masked.
const MASKED: u64 = 0x3c5;

impl Registers {
    /// The state at reset.
    pub(super) const fn new() -> Self {
        Registers {
            x: [0; 31],
            sp: 0,
            pc: 0,
            pstate: MASKED,
            syndrome: 0,
            address: 0,
            page: 0,
            deadline: 0,
        }
    }

    /// PSTATE.
    #[inline(always)]
    pub fn pstate(&self) -> u64 {
        self.pstate
    }

    /// Sets PSTATE.
    ///
    /// # Errors
    /// EINVAL unless the mode is one of AArch64, at most EL1, or AArch32's of EL0, if CPUs have it.
    pub fn set_pstate(&mut self, value: u64) -> Result<()> {
        let mode = value & MODE;
        let is_user_32 = mode == USER_32 && features().aarch32_el0();
        if !is_user_32 && !MODES.contains(&mode) {
            return Err(Errno::EINVAL);
        }
        self.pstate = value;
        Ok(())
    }

    /// Truncates the registers that a VMM has set to 32 bits, if the guest is in AArch32 state (as
    /// Linux does).
    pub fn narrow(&mut self) {
        if self.pstate & MODE == USER_32 {
            let cut = |register: &mut u64| *register &= u64::from(u32::MAX);
            self.x[..REGISTERS_32].iter_mut().for_each(cut);
            cut(&mut self.pc);
        }
    }

    /// Takes an exception to EL1 with the handler at `vector`, where SCTLR_EL1 is `control` (Arm
    /// ARM, "Exception entry": all of PSTATE that is not named here becomes 0).
    pub fn take_exception(&mut self, vector: u64, control: u64) {
        self.pc = vector;
        self.pstate = MASKED | self.pstate & KEPT;
        if control & SPAN == 0 {
            self.pstate |= PAN;
        }
        if control & DSSBS != 0 {
            self.pstate |= SSBS;
        }
    }

    /// Advances past an emulated instruction, as the CPU does after any instruction.
    #[inline(always)]
    pub fn skip(&mut self) {
        if self.pstate & USER_32 != 0 {
            return self.skip_32();
        }
        self.pc = self.pc.wrapping_add(4);
        self.pstate &= !(STEP | BRANCH_TYPE);
    }

    /// The same in AArch32 state.
    #[cold]
    fn skip_32(&mut self) {
        let is_short = self.pstate & THUMB != 0 && self.syndrome & LONG == 0;
        let len = if is_short { 2 } else { 4 };
        self.pc = self.pc.wrapping_add(len) & u64::from(u32::MAX);
        self.pstate = advance_block(self.pstate) & !STEP;
    }

    /// Whether the trapped instruction has no effect, because its condition does not hold in
    /// AArch32 state: a CPU may trap it before it checks the condition.
    pub fn does_nothing(&self) -> bool {
        self.pstate & USER_32 != 0
            && self.syndrome & UNCONDITIONAL == 0
            && !condition_holds(self.syndrome, self.pstate)
    }

    /// Records the address of the debug exception for which the guest was just left.
    #[inline(always)]
    pub fn take_address(&mut self) {
        // Here FAR_EL1 accesses FAR_EL2.
        self.address = read!("far_el1") as u64;
    }

    /// Records the fault addresses of the abort for which the guest was just left; other exits do
    /// not set them. False if the guest has changed its own translation since: then it tries the
    /// access again.
    #[inline(always)]
    pub fn take_fault(&mut self) -> bool {
        self.take_address();
        let page = match has_page(self.syndrome) {
            true => Some(read!("hpfar_el2") as u64),
            false => translate(self.address),
        };
        self.page = page.unwrap_or(self.page);
        page.is_some()
    }

    /// Restarts a memory copy that was begun on a CPU with the other implementation option.
    #[cold]
    pub fn restart_copy(&mut self) {
        let mut frame = Frame::user(self.pc as usize, self.sp as usize, 0);
        frame.x = self.x.map(|register| register as usize);
        frame.pstate = self.pstate as usize;
        mops::restart(&mut frame, self.syndrome as usize);
        self.x = frame.x.map(|register| register as u64);
        (self.pc, self.pstate) = (frame.pc as u64, frame.pstate as u64);
    }

    /// Executes one more instruction before an exception for the debugger that single-steps it.
    pub fn step(&mut self) {
        self.pstate |= STEP;
    }
}

/// PSTATE.IT in AArch32 state: bits 7 to 2, and bits 1 and 0.
const BLOCK_HIGH: u64 = 0x3f << 10;
const BLOCK_LOW: u64 = 0b11 << 25;

fn block(pstate: u64) -> u64 {
    (pstate & BLOCK_HIGH) >> 8 | (pstate & BLOCK_LOW) >> 25
}

/// Whether the condition of a trapped instruction in AArch32 state holds (Arm ARM,
/// "ConditionHolds").
fn condition_holds(syndrome: u64, pstate: u64) -> bool {
    let condition = match (syndrome & HAS_CONDITION, block(pstate)) {
        (0, 0) => return true,
        (0, block) => block >> 4,
        _ => syndrome >> 20 & 0xf,
    };
    let [negative, zero, carry, overflow] = [31, 30, 29, 28].map(|bit| pstate >> bit & 1 != 0);
    let holds = match condition >> 1 {
        0 => zero,
        1 => carry,
        2 => negative,
        3 => overflow,
        4 => carry && !zero,
        5 => negative == overflow,
        6 => negative == overflow && !zero,
        _ => return true,
    };
    holds == (condition & 1 == 0)
}

/// PSTATE in AArch32 state after an instruction: IT describes the remaining instructions of an IT
/// block (Arm ARM, "ITAdvance").
fn advance_block(pstate: u64) -> u64 {
    if pstate & THUMB == 0 {
        return pstate;
    }
    let block = block(pstate);
    let next = match block & 0b111 {
        0 => 0,
        _ => block & 0xe0 | block << 1 & 0x1f,
    };
    pstate & !(BLOCK_HIGH | BLOCK_LOW) | (next & 0xfc) << 8 | (next & 0b11) << 25
}

/// Fields of an abort's syndrome: it happened in a walk of the guest's tables; the kind of fault
/// without the level; and the kind of a permission fault.
const WALK: u64 = 1 << 7;
const KIND: u64 = 0x3c;
const PERMISSION: u64 = 0x0c;
/// PAR_EL1.F: the translation failed; and the field with the address of the page.
const FAILED: u64 = 1;
const PAGE: u64 = 0xf_ffff_ffff_f000;

/// Whether HPFAR_EL2 has the page of an abort with this syndrome. It is UNKNOWN after a permission
/// fault, unless in a walk (Arm ARM, HPFAR_EL2).
#[inline(always)]
fn has_page(syndrome: u64) -> bool {
    syndrome & (WALK | KIND) != PERMISSION
}

/// The guest's own translation of an address, in the format of HPFAR_EL2; none if it fails now. The
/// guest's context is in this CPU.
#[inline(never)]
fn translate(address: u64) -> Option<u64> {
    let guests = read!("par_el1");
    // SAFETY: a walk of the guest's tables changes nothing but PAR_EL1.
    unsafe { asm!("at s1e1r, {}", in(reg) address, options(nostack, preserves_flags)) };
    isb();
    let result = read!("par_el1") as u64;
    // SAFETY: the guest's own value.
    unsafe { write!("par_el1", guests) };
    page_of(result)
}

/// The page in PAR_EL1, in the format of HPFAR_EL2.
fn page_of(result: u64) -> Option<u64> {
    (result & FAILED == 0).then_some((result & PAGE) >> 8)
}

const _: () = assert!(offset_of!(Registers, x) == 0 && offset_of!(Registers, sp) == 8 * 31);
const _: () = assert!(offset_of!(Registers, pstate) == offset_of!(Registers, pc) + 8);

/// The reason why a guest was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Left {
    /// A synchronous exception, described by the syndrome.
    Trap = 0,
    /// An interrupt for the host is pending.
    Interrupt = 1,
    /// An SError.
    Error = 2,
}

/// Bytes of the stack in which `enter` saves the registers that a call preserves, the address of
/// the guest's registers, and SP_EL0.
const SAVED: usize = 8 * 14;

unsafe extern "C" {
    /// The vectors while a guest runs.
    pub(super) static guest_vectors: u8;
}

/// Runs the guest until it is left. Interrupts stay masked here and pending for the host.
///
/// # Safety
/// The guest's context, translation and vectors are loaded, and HCR_EL2 assigns EL1 to a guest.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(registers: *mut Registers) -> Left {
    naked_asm!(
        "stp x19, x20, [sp, -{saved}]!",
        "stp x21, x22, [sp, 16]",
        "stp x23, x24, [sp, 32]",
        "stp x25, x26, [sp, 48]",
        "stp x27, x28, [sp, 64]",
        "stp x29, x30, [sp, 80]",
        "mrs x1, sp_el0",
        "stp x0, x1, [sp, 96]",
        "ldp x1, x2, [x0, {pc}]",
        "msr elr_el1, x1",
        "msr spsr_el1, x2",
        "ldp x30, x1, [x0, 8 * 30]",
        "msr sp_el0, x1",
        "ldp x2, x3, [x0, 8 * 2]",
        "ldp x4, x5, [x0, 8 * 4]",
        "ldp x6, x7, [x0, 8 * 6]",
        "ldp x8, x9, [x0, 8 * 8]",
        "ldp x10, x11, [x0, 8 * 10]",
        "ldp x12, x13, [x0, 8 * 12]",
        "ldp x14, x15, [x0, 8 * 14]",
        "ldp x16, x17, [x0, 8 * 16]",
        "ldp x18, x19, [x0, 8 * 18]",
        "ldp x20, x21, [x0, 8 * 20]",
        "ldp x22, x23, [x0, 8 * 22]",
        "ldp x24, x25, [x0, 8 * 24]",
        "ldp x26, x27, [x0, 8 * 26]",
        "ldp x28, x29, [x0, 8 * 28]",
        "ldp x0, x1, [x0]",
        "eret",
        "dsb nsh",
        "isb",
        saved = const SAVED,
        pc = const offset_of!(Registers, pc),
    )
}

global_asm!(
    ".pushsection .text.entry, \"ax\"",
    ".macro leave_guest why",
    "   .balign 128",
    "   stp x0, x1, [sp, -16]!",
    "   mov x0, \\why",
    "   b leave_guest",
    ".endm",
    ".macro not_a_guest",
    "   .balign 128",
    "   b el1_unexpected",
    ".endm",
    ".balign 2048",
    ".global guest_vectors",
    "guest_vectors:",
    ".rept 8",
    "   not_a_guest",
    ".endr",
    // From a 64-bit guest, then from a 32-bit one: synchronous, IRQ, FIQ, SError.
    ".rept 2",
    "   leave_guest {trap}",
    "   leave_guest {interrupt}",
    "   leave_guest {interrupt}",
    "   leave_guest {error}",
    ".endr",
    ".balign 64",
    "leave_guest:",
    "   ldr x1, [sp, 16 + 96]",
    "   stp x2, x3, [x1, 8 * 2]",
    "   ldp x2, x3, [sp], 16",
    "   stp x2, x3, [x1]",
    "   stp x4, x5, [x1, 8 * 4]",
    "   stp x6, x7, [x1, 8 * 6]",
    "   stp x8, x9, [x1, 8 * 8]",
    "   stp x10, x11, [x1, 8 * 10]",
    "   stp x12, x13, [x1, 8 * 12]",
    "   stp x14, x15, [x1, 8 * 14]",
    "   stp x16, x17, [x1, 8 * 16]",
    "   stp x18, x19, [x1, 8 * 18]",
    "   stp x20, x21, [x1, 8 * 20]",
    "   stp x22, x23, [x1, 8 * 22]",
    "   stp x24, x25, [x1, 8 * 24]",
    "   stp x26, x27, [x1, 8 * 26]",
    "   stp x28, x29, [x1, 8 * 28]",
    "   mrs x2, sp_el0",
    "   stp x30, x2, [x1, 8 * 30]",
    "   mrs x2, elr_el1",
    "   mrs x3, spsr_el1",
    "   stp x2, x3, [x1, {pc}]",
    "   mrs x2, esr_el1",
    "   str x2, [x1, {syndrome}]",
    "   ldr x1, [sp, 96 + 8]",
    "   msr sp_el0, x1",
    "   ldp x29, x30, [sp, 80]",
    "   ldp x27, x28, [sp, 64]",
    "   ldp x25, x26, [sp, 48]",
    "   ldp x23, x24, [sp, 32]",
    "   ldp x21, x22, [sp, 16]",
    "   ldp x19, x20, [sp], {saved}",
    "   ret",
    ".popsection",
    saved = const SAVED,
    pc = const offset_of!(Registers, pc),
    syndrome = const offset_of!(Registers, syndrome),
    trap = const Left::Trap as usize,
    interrupt = const Left::Interrupt as usize,
    error = const Left::Error as usize,
);

#[cfg(feature = "selftest")]
crate::selftest! {
    fn an_exception_keeps_data_independent_timing() {
        const DIT: u64 = 1 << 24;
        let mut registers = Registers::new();
        registers.pstate = DIT | BRANCH_TYPE | STEP;
        registers.take_exception(0x200, SPAN);
        assert_eq!(registers.pstate, MASKED | DIT);
    }

    fn a_block_of_32_bit_instructions_goes_on() {
        // ITTEE EQ: four instructions remain, then three, two, one and none.
        let state = |block: u64| THUMB | (block & 0xfc) << 8 | (block & 3) << 25;
        for [before, after] in [[0x07, 0x0e], [0x0e, 0x1c], [0x1c, 0x18], [0x18, 0]] {
            assert_eq!(advance_block(state(before)), state(after));
        }
        assert_eq!(advance_block(state(0)), state(0));
    }

    fn conditions_of_32_bit_instructions_are_looked_at() {
        let flags = |flags: u64| USER_32 | flags << 28;
        let holds = |condition: u64, state| condition_holds(HAS_CONDITION | condition << 20, state);
        // EQ, CS, MI, VS, HI, GE and GT, by N, Z, C and V; each with its opposite.
        for (condition, held) in [(0, 0xf0f0), (2, 0xcccc), (4, 0xff00), (6, 0xaaaa), (8, 0x0c0c),
            (10, 0xaa55), (12, 0x0a05)] {
            for state in 0..16 {
                let held = held >> state & 1 != 0;
                assert_eq!(holds(condition, flags(state)), held, "{condition} {state}");
                assert_eq!(holds(condition + 1, flags(state)), !held);
            }
        }
        assert!(holds(14, flags(0)) && holds(15, flags(0)) && condition_holds(0, flags(0)));
        // The syndrome has no condition, but the instruction is in an IT block of EQ.
        let block = THUMB | flags(0) | 1 << 25;
        assert!(!condition_holds(0, block) && condition_holds(0, block | flags(4)));
        let mut registers = Registers::new();
        (registers.pstate, registers.syndrome) = (flags(0), 0x03 << 26 | HAS_CONDITION);
        assert!(registers.does_nothing());
        // The syndrome of an abort has no condition at that position.
        registers.syndrome = 0x24 << 26 | HAS_CONDITION;
        assert!(!registers.does_nothing());
    }

    fn the_page_of_an_abort_is_read_only_where_it_is_known() {
        // A write of the guest: translation, access flag and permission faults of level 3.
        let write = 0x24 << 26 | 1 << 25 | 1 << 6;
        assert!(has_page(write | 0x07) && has_page(write | 0x0b));
        (0x0c..0x10).for_each(|fault| assert!(!has_page(write | fault)));
        // A walk that would set the guest's Access flag.
        assert!(has_page(write | WALK | 0x0f));
        // Write-back, inner shareable.
        assert_eq!(page_of(0xff00_1234_5678_9b80), Some(0x12_3456_7890));
        assert_eq!(page_of(0x0f), None);
    }
}
