//! The kernel's own code: its bytes, its symbols, and stack traces.

use core::ops::Range;

use super::cpu::Cpu;
use super::mmu::VMALLOC;
use super::{KERNEL_STACK_SIZE, ThreadState, boot_stack, ends_in_call};
use crate::kallsyms::Return;

/// The maximum number of return addresses that are printed.
const DEPTH: usize = 40;

unsafe extern "C" {
    static __text_start: u8;
    static __text_end: u8;
    static __symbols_start: u8;
    static __symbols_end: u8;
}

/// The address of the kernel's first instruction.
pub fn start() -> usize {
    &raw const __text_start as usize
}

/// The table of the kernel's function names, relative to [`start`], which the build fills in
/// (`__symbols_start` in kernel.ld). All zero in an image that was built otherwise.
pub fn symbols() -> &'static [u8] {
    let (start, end) = (&raw const __symbols_start, &raw const __symbols_end);
    // SAFETY: the linker script reserves these constants for the table.
    unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// The kernel's code.
fn bytes() -> &'static [u8] {
    let (start, end) = (&raw const __text_start, &raw const __text_end);
    // SAFETY: mapped forever, and written only by patching, in whole instructions.
    unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}

/// Whether an address is in an area of stacks and their guards.
fn is_stack(address: usize) -> bool {
    VMALLOC.contains(&address) || boot_stack::contains(address)
}

/// Whether an address is in the guard below a stack.
fn is_guard(address: usize) -> bool {
    is_stack(address) && address & KERNEL_STACK_SIZE == 0
}

/// Whether the thread with stack pointer `sp` has overflowed its stack, after an access to
/// `address` failed.
pub(crate) fn has_overflowed(sp: usize, address: usize) -> bool {
    let slot = |address: usize| address / (2 * KERNEL_STACK_SIZE);
    is_guard(sp) || is_guard(address) && slot(address) == slot(sp)
}

/// Logs the callers of code whose stack pointer is `sp`, on the current stack or on the current
/// thread's.
///
/// Functions keep no frame records, which would cost each call on every hot path. Instead every
/// word of the stack that points behind a call is printed: all callers, and occasionally one of a
/// call that has already returned.
///
/// # Safety
/// `sp` is, or was at an exception, the stack pointer of a thread that does not continue meanwhile.
pub(crate) unsafe fn log_callers(sp: usize) {
    let here = &raw const sp as usize;
    let in_use = here..(here | (KERNEL_STACK_SIZE - 1)) + 1;
    let words = if in_use.contains(&sp) {
        sp..in_use.end
    } else if is_stack(sp) {
        // A stack is the upper half of its slot.
        let end = (sp | (2 * KERNEL_STACK_SIZE - 1)) + 1;
        sp.max(end - KERNEL_STACK_SIZE)..end
    } else {
        return;
    };
    // SAFETY: words of a stack that is in use, or of the one whose thread's failure is being
    // logged.
    unsafe { callers(words) }
        .take(DEPTH)
        .for_each(|address| crate::log!("  called by {}", Return(address)));
}

impl ThreadState {
    /// Fills `room` with the return addresses on the stack of a sleeping thread, innermost first,
    /// possibly including some of calls that have already returned. Returns their number.
    ///
    /// # Panics
    /// If a CPU runs it, or already inspects it.
    pub fn callers(&self, room: &mut [usize]) -> usize {
        self.owner.look(|| {
            // SAFETY: no CPU runs the thread, so nobody writes its stack.
            let callers = unsafe {
                let (at, in_use) = self.place_in_kernel();
                core::iter::once(at).chain(callers(in_use))
            };
            let filled = room.iter_mut().zip(callers);
            filled.map(|(to, at)| *to = at).count()
        })
    }
}

/// Logs the return addresses on the stack of the thread that another CPU runs: the outermost, with
/// some of calls that have returned.
///
/// # Safety
/// The CPU never continues.
pub(crate) unsafe fn log_stack_of(cpu: &Cpu) {
    // SAFETY: the CPU does not write the cell, and its thread lives as long as it runs.
    let Some(thread) = (unsafe { cpu.current.as_ptr().read_volatile().as_ref() }) else {
        return;
    };
    // SAFETY: the CPU does not switch, so the context stays as it is.
    let (_, Range { end: top, .. }) = unsafe { thread.place_in_kernel() };
    let stack = top & !(KERNEL_STACK_SIZE - 1)..top;
    // SAFETY: the CPU does not write its stack.
    let words = || unsafe { callers(stack.clone()) };
    words()
        .skip(words().count().saturating_sub(DEPTH))
        .for_each(|address| crate::log!("  called by {}", Return(address)));
}

/// The words of a stack that point behind a call.
///
/// # Safety
/// Nobody writes them meanwhile, except the code that logs its own failure.
unsafe fn callers(words: Range<usize>) -> impl Iterator<Item = usize> {
    let words = words.start.next_multiple_of(size_of::<usize>())..words.end;
    words.step_by(size_of::<usize>()).filter_map(|at| {
        // SAFETY: guaranteed by the caller.
        let word = unsafe { (at as *const usize).read() };
        let code = bytes().get(..word.checked_sub(start())?)?;
        ends_in_call(code).then_some(word)
    })
}

/// Logs the callers of the caller.
#[inline(never)]
pub fn log_callers_here() {
    let here = 0usize;
    // SAFETY: this is the current stack.
    unsafe { log_callers(&raw const here as usize) };
}
