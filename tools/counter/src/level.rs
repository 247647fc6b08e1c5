//! The privilege level of a CPU, the address that it executes, its stack and its system call.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::decode::Level;
use crate::qemu;

/// A register in the list that QEMU gives to debuggers.
struct Register {
    names: &'static [&'static CStr],
    /// QEMU's handle, which is the same for all CPUs; null before the first starts.
    handle: AtomicPtr<c_void>,
}

/// PSTATE of arm64, or RISC-V's level.
static STATE: Register = Register::new(&[c"cpsr", c"priv"]);
/// The program counter.
static PC: Register = Register::new(&[c"pc"]);
/// The stack pointer.
static STACK: Register = Register::new(&[c"sp"]);
/// The number of the system call, where one is made.
static CALL: Register = Register::new(&[c"x8", c"a7"]);

impl Register {
    const fn new(names: &'static [&'static CStr]) -> Self {
        Self {
            names,
            handle: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The value, up to eight bytes of it, in the CPU whose thread this is.
    fn read(&self) -> Option<u64> {
        let handle = self.handle.load(Ordering::Relaxed);
        if handle.is_null() {
            return None;
        }
        // SAFETY: QEMU's own handle; the array is ours until it is given back, and as long as it
        // says.
        unsafe {
            let bytes = qemu::g_byte_array_new();
            let read = qemu::qemu_plugin_read_register(handle, bytes);
            let mut value = [0; 8];
            if read > 0 {
                let found = std::slice::from_raw_parts((*bytes).data, (*bytes).len as usize);
                let len = found.len().min(value.len());
                value[..len].copy_from_slice(&found[..len]);
            }
            qemu::g_byte_array_unref(bytes);
            (read > 0).then(|| u64::from_le_bytes(value))
        }
    }
}

/// A CPU starts: notes the handles.
pub extern "C" fn started(_id: qemu::Id, _cpu: u32) {
    // SAFETY: called on the CPU's thread; the array is ours, and its elements live until it is
    // given back.
    unsafe {
        let registers = qemu::qemu_plugin_get_registers();
        let (data, len) = ((*registers).data, (*registers).len as usize);
        for found in std::slice::from_raw_parts(data, len) {
            for register in [&STATE, &PC, &STACK, &CALL] {
                if register.names.contains(&CStr::from_ptr(found.name)) {
                    register.handle.store(found.handle, Ordering::Relaxed);
                }
            }
        }
        qemu::g_array_unref(registers);
    }
}

/// The level and the program counter of the CPU whose thread this is.
pub fn current() -> Option<Level> {
    Some(Level {
        state: STATE.read()?,
        pc: PC.read()?,
    })
}

/// The program counter of the CPU whose thread this is; exact where a block begins.
pub fn pc() -> Option<u64> {
    PC.read()
}

/// The stack pointer of the CPU whose thread this is.
pub fn stack() -> Option<u64> {
    STACK.read()
}

/// The number of the system call that the CPU whose thread this is makes.
pub fn call() -> Option<u64> {
    CALL.read()
}
