//! 32-bit Arm programs (AArch32 at EL0): the pages that the kernel maps for them, and system calls
//! that are in none of the tables. Their signal frames are in `compat_signal.rs`, their system
//! calls in `syscall/compat`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::compat::{END, FIRST, PRIVATE_COUNT, PRIVATE_FIRST};
use linux_raw_sys::general::{ILL_ILLTRP, SIGILL};
use spin::Once;

use super::features::{compat_hwcap, features};
use super::frame::{Frame, pstate};
use super::{PAGE_SIZE, uaccess};
use crate::arch::Abi;
use crate::arch::syscall::UNKNOWN;
use crate::arch::task;
use crate::arch::vdso::{Pages, SIGRETURN, page};
use crate::arch::{Entry, Syscall};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::mm::vma::{Flags, Label, Rights, Source};
use crate::mm::{AddressSpace, MapRequest, Place, Removed};
use crate::upcall;

/// The ABI of 32-bit programs.
pub const ABI: Abi = Abi {
    is_64bit: false,
    machine: 40,
    // EF_ARM_EABIMASK
    flags: 0xff00_0000,
    end: || (1 << 32) - PAGE_SIZE,
    platform: "v8l",
    available: || features().aarch32_el0(),
    hwcap: compat_hwcap,
    map,
    start: Frame::compat,
};

/// The address of the kernel's helpers (Documentation/arch/arm/kernel_user_helpers.rst).
const VECTORS: usize = 0xffff_0000;

/// A helper: its offset in the vectors page, and its instructions (Arm ARM, A32 encodings).
struct Helper {
    at: usize,
    code: &'static [u32],
}

const HELPERS: [Helper; 5] = [
    // Compares the 8 bytes at r2 with those at r0, and if they are equal replaces them by those at
    // r1. On success, r0 is 0 and C is set.
    Helper {
        at: 0xf60,
        code: &[
            0xe92d_00f0, // push {r4-r7}
            0xe1c0_40d0, // ldrd r4, r5, [r0]
            0xe1c1_60d0, // ldrd r6, r7, [r1]
            0xe1b2_0e9f, // 1: ldaexd r0, r1, [r2]
            0xe030_3004, // eors r3, r0, r4
            0x0031_3005, // eorseq r3, r1, r5
            0x01a2_3e96, // stlexdeq r3, r6, r7, [r2]
            0x0333_0001, // teqeq r3, #1
            0x0aff_fff9, // beq 1b
            0xf57f_f05b, // dmb ish
            0xe273_0000, // rsbs r0, r3, #0
            0xe8bd_00f0, // pop {r4-r7}
            0xe12f_ff1e, // bx lr
        ],
    },
    // A memory barrier.
    Helper {
        at: 0xfa0,
        code: &[0xf57f_f05b, 0xe12f_ff1e], // dmb ish; bx lr
    },
    // Compares the word at r2 with r0, and if they are equal replaces it by r1. On success, r0 is 0
    // and C is set.
    Helper {
        at: 0xfc0,
        code: &[
            0xe192_3e9f, // 1: ldaex r3, [r2]
            0xe053_3000, // subs r3, r3, r0
            0x0182_3e91, // stlexeq r3, r1, [r2]
            0x0333_0001, // teqeq r3, #1
            0x0aff_fffa, // beq 1b
            0xf57f_f05b, // dmb ish
            0xe273_0000, // rsbs r0, r3, #0
            0xe12f_ff1e, // bx lr
        ],
    },
    // The thread pointer.
    Helper {
        at: 0xfe0,
        code: &[0xee1d_0f70, 0xe12f_ff1e], // mrc p15, 0, r0, c13, c0, 3; bx lr
    },
    // The version: the size of the helpers in units of 32 bytes.
    Helper {
        at: 0xffc,
        code: &[5],
    },
];

/// The code to which signal handlers return, from `SIGRETURN` on: without and with siginfo, in Arm
/// and in Thumb instructions.
const RETURNS: [u32; 6] = [
    0xe3a0_7077, // mov r7, #119 (sigreturn)
    0xef00_0000, // svc #0
    0xe3a0_70ad, // mov r7, #173 (rt_sigreturn)
    0xef00_0000, // svc #0
    0xdf00_2777, // movs r7, #119; svc #0
    0xdf00_27ad, // movs r7, #173; svc #0
];

/// The offset of a handler's return address from [`RETURNS`].
pub(super) fn return_offset(with_info: bool, thumb: bool) -> usize {
    match (thumb, with_info) {
        (false, false) => 0,
        (false, true) => 8,
        (true, false) => 16 + 1,
        (true, true) => 20 + 1,
    }
}

/// The vectors page, followed by the signal return page.
static PAGES: Once<Arc<Pages>> = Once::new();

fn pages() -> Result<&'static Arc<Pages>> {
    PAGES.try_call_once(|| {
        let (vectors, returns) = (page(&[])?, page(&[])?);
        for helper in &HELPERS {
            for (at, word) in (helper.at..).step_by(4).zip(helper.code) {
                vectors.write(at, &word.to_le_bytes());
            }
        }
        for (at, word) in (SIGRETURN..).step_by(4).zip(RETURNS) {
            returns.write(at, &word.to_le_bytes());
        }
        let mut pages = Vec::new();
        pages.try_reserve(2).map_err(|_| Errno::ENOMEM)?;
        pages.extend([vectors, returns]);
        try_arc(Pages(pages))
    })
}

/// Maps the vectors page and the signal return page; returns the address of the latter.
fn map(space: &AddressSpace) -> Result<usize> {
    let pages = pages()?;
    let place = |place, index: usize, label| {
        let request = MapRequest {
            place,
            len: PAGE_SIZE,
            rights: Rights::READ.union(Rights::EXECUTE),
            flags: Flags::empty(),
            source: Source::File {
                mapping: pages.clone(),
                offset: index * PAGE_SIZE,
            },
            label,
            limit: usize::MAX,
        };
        space.map(request, &mut Removed::new())
    };
    place(Place::Fixed(VECTORS), 0, Label::Vectors)?;
    place(Place::Hint(0), 1, Label::Sigpage)
}

/// Whether the undefined instruction at the program counter is one that debuggers use as a
/// breakpoint: UDF #16 in Arm state, the 16-bit UDF #1 or the 32-bit UDF.W #0 in Thumb state.
pub(super) fn is_breakpoint(frame: &Frame) -> bool {
    const ARM: u32 = 0x07f0_01f0;
    const THUMB: u16 = 0xde01;
    const THUMB_WIDE: [u16; 2] = [0xf7f0, 0xa000];
    if !frame.is_compat() {
        return false;
    }
    if frame.pstate & pstate::THUMB == 0 {
        let word = UserPtr::<u32>::new(frame.pc).read();
        return word.is_ok_and(|word| word & 0x0fff_ffff == ARM);
    }
    let half = |at| UserPtr::<u16>::new(frame.pc + at).read();
    half(0)
        .is_ok_and(|first| first == THUMB || first == THUMB_WIDE[0] && half(2) == Ok(THUMB_WIDE[1]))
}

/// The end of Arm's private calls: unassigned ones below it return ENOSYS, others raise SIGILL.
const PRIVATE_END: i32 = PRIVATE_FIRST as i32 + 0x800;

/// Arm's private calls, and the entry for unknown calls, with their indices in the tables of system
/// calls.
pub const fn calls() -> [(usize, Syscall, Entry); 3] {
    let unknown = crate::full_frame_stub!(unknown_call);
    [
        (PRIVATE + 2, cacheflush, Entry::new(cacheflush)),
        (PRIVATE + 5, set_tls, Entry::new(set_tls)),
        (FIRST + UNKNOWN, unknown_call, unknown),
    ]
}
const PRIVATE: usize = FIRST + abi::compat::PRIVATE;

/// The index of call `number` in the tables of system calls.
pub(super) fn place(number: usize) -> usize {
    let private = number.wrapping_sub(PRIVATE_FIRST);
    match number {
        0..END => FIRST + number,
        _ if private < PRIVATE_COUNT => PRIVATE + private,
        _ => FIRST + UNKNOWN,
    }
}

/// A call that is in no table: ENOSYS, also for negative numbers, or SIGILL from [`PRIVATE_END`]
/// on.
extern "C" fn unknown_call(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    let call = task::state().with_frame(|frame| frame.call());
    if call.number < PRIVATE_END {
        return Errno::ENOSYS.result();
    }
    let address = task::state().with_frame(|frame| frame.call_address());
    upcall::force_signal(SIGILL, ILL_ILLTRP, address);
    0
}

/// set_tls(2): sets the thread pointer that the program reads.
extern "C" fn set_tls(pointer: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    task::state().set_tls(pointer);
    0
}

/// cacheflush(2): makes instructions that were written in the range visible to instruction fetches.
extern "C" fn cacheflush(
    start: usize,
    end: usize,
    flags: usize,
    _: usize,
    _: usize,
    _: usize,
) -> isize {
    if end < start || flags != 0 {
        return Errno::EINVAL.result();
    }
    match uaccess::sync_instructions(start, end - start) {
        Ok(()) => 0,
        Err(uaccess::Faulted) => Errno::EFAULT.result(),
    }
}
