//! The kernel's own code, for which the host's debugger is the better tool.

/// The address of the kernel's first instruction.
pub fn start() -> usize {
    0
}

/// The table of the kernel's function names: empty.
pub fn symbols() -> &'static [u8] {
    &[]
}

/// Logs the callers of the caller.
pub fn log_callers_here() {}

/// Logs the callers of the thread that another CPU runs: there is none.
///
/// # Safety
/// None is needed.
pub unsafe fn log_stack_of(_cpu: &super::cpu::Cpu) {}
