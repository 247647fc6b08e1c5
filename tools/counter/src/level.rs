//! The exception level that a CPU of arm64 is at.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::qemu;

/// Where PSTATE has the level, in the register that QEMU gives to debuggers.
const LEVEL: u32 = 2;

/// QEMU's handle of that register, which is the same for all CPUs; null before the first starts.
static STATE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// A CPU starts: notes the handle.
pub extern "C" fn started(_id: qemu::Id, _cpu: u32) {
    // SAFETY: called on the CPU's thread; the array is ours, and its elements live until it is
    // given back.
    unsafe {
        let registers = qemu::qemu_plugin_get_registers();
        let (data, len) = ((*registers).data, (*registers).len as usize);
        let mut all = std::slice::from_raw_parts(data, len).iter();
        if let Some(found) = all.find(|register| CStr::from_ptr(register.name) == c"cpsr") {
            STATE.store(found.handle, Ordering::Relaxed);
        }
        qemu::g_array_unref(registers);
    }
}

/// The level of the CPU whose thread this is.
pub fn current() -> Option<u32> {
    let state = STATE.load(Ordering::Relaxed);
    if state.is_null() {
        return None;
    }
    // SAFETY: QEMU's own handle; the array is ours until it is given back, and as long as it says.
    unsafe {
        let bytes = qemu::g_byte_array_new();
        let read = qemu::qemu_plugin_read_register(state, bytes);
        let value = std::slice::from_raw_parts((*bytes).data, (*bytes).len as usize);
        let level = value.first().map(|low| u32::from(*low) >> LEVEL & 3);
        qemu::g_byte_array_unref(bytes);
        level.filter(|_| read > 0)
    }
}
