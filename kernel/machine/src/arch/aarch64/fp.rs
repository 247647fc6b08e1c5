//! FP and SIMD registers. The kernel itself is built not to use them.

use core::arch::asm;
use core::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// V0 to V31, and the control and status registers, in the order of Linux's `struct
/// fpsimd_context`.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FpState {
    /// Status.
    pub fpsr: u32,
    /// Control.
    pub fpcr: u32,
    /// V0 to V31, low halves first.
    pub v: [[u64; 2]; 32],
}

impl FpState {
    /// The initial state of a program: all zero.
    pub const fn new() -> Self {
        FpState {
            fpsr: 0,
            fpcr: 0,
            v: [[0; 2]; 32],
        }
    }
}

/// Stores or loads all registers, 32 bytes at a time.
macro_rules! all {
    ($op:literal) => {
        concat!(
            ".arch_extension fp\n",
            ".arch_extension simd\n",
            $op,
            " q0, q1, [{at}]\n",
            $op,
            " q2, q3, [{at}, 32]\n",
            $op,
            " q4, q5, [{at}, 64]\n",
            $op,
            " q6, q7, [{at}, 96]\n",
            $op,
            " q8, q9, [{at}, 128]\n",
            $op,
            " q10, q11, [{at}, 160]\n",
            $op,
            " q12, q13, [{at}, 192]\n",
            $op,
            " q14, q15, [{at}, 224]\n",
            $op,
            " q16, q17, [{at}, 256]\n",
            $op,
            " q18, q19, [{at}, 288]\n",
            $op,
            " q20, q21, [{at}, 320]\n",
            $op,
            " q22, q23, [{at}, 352]\n",
            $op,
            " q24, q25, [{at}, 384]\n",
            $op,
            " q26, q27, [{at}, 416]\n",
            $op,
            " q28, q29, [{at}, 448]\n",
            $op,
            " q30, q31, [{at}, 480]\n",
            ".arch_extension nosimd\n",
            ".arch_extension nofp\n",
        )
    };
}

/// The offset of V0 to V31, after FPSR and FPCR.
const VECTORS: usize = offset_of!(FpState, v);
const _: () = assert!(VECTORS == 8 && offset_of!(FpState, fpcr) == 4);

/// Saves this CPU's registers.
pub fn save(state: &mut FpState) {
    // SAFETY: `state` is writable.
    unsafe { save_to(state) };
}

/// As [`save`], to uninitialized memory, all of which it initializes.
///
/// # Safety
/// `state` must be writable.
pub unsafe fn save_to(state: *mut FpState) {
    // SAFETY: writes all of the caller's state (FPSR and FPCR by their encodings).
    unsafe {
        asm!(
            all!("stp"),
            "mrs {status}, S3_3_C4_C4_1",
            "mrs {control}, S3_3_C4_C4_0",
            "stp {status:w}, {control:w}, [{at}, -8]",
            at = in(reg) state.wrapping_byte_add(VECTORS),
            status = out(reg) _,
            control = out(reg) _,
            options(nostack, preserves_flags),
        )
    };
}

/// Saves FPSR and FPCR.
pub fn save_control(state: &mut FpState) {
    let (fpsr, fpcr): (u64, u64);
    // SAFETY: reads two registers.
    unsafe {
        asm!("mrs {}, S3_3_C4_C4_1", "mrs {}, S3_3_C4_C4_0", out(reg) fpsr, out(reg) fpcr, options(nomem, nostack, preserves_flags))
    };
    state.fpsr = fpsr as u32;
    state.fpcr = fpcr as u32;
}

/// Loads this CPU's registers.
pub fn load(state: &FpState) {
    // SAFETY: loads all of `state` into registers that no compiled code uses.
    unsafe {
        asm!(
            all!("ldp"),
            "ldp {status:w}, {control:w}, [{at}, -8]",
            "msr S3_3_C4_C4_1, {status}",
            "msr S3_3_C4_C4_0, {control}",
            at = in(reg) (&raw const *state).wrapping_byte_add(VECTORS),
            status = out(reg) _,
            control = out(reg) _,
            options(nostack, preserves_flags, readonly),
        )
    };
}

/// Loads FPSR and FPCR.
pub fn load_control(state: &FpState) {
    let (fpsr, fpcr) = (u64::from(state.fpsr), u64::from(state.fpcr));
    // SAFETY: these registers belong to the program.
    unsafe {
        asm!("msr S3_3_C4_C4_1, {}", "msr S3_3_C4_C4_0, {}", in(reg) fpsr, in(reg) fpcr, options(nomem, nostack, preserves_flags))
    };
}
