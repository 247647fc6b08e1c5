//! The part of QEMU's plugin interface that is used here: `include/qemu/qemu-plugin.h` of QEMU
//! 10.0, where it is at version 4.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// `QEMU_PLUGIN_VERSION` of QEMU 10.0.
pub const VERSION: c_int = 4;

pub type Id = u64;

#[repr(C)]
pub struct Tb([u8; 0]);
#[repr(C)]
pub struct Insn([u8; 0]);
#[repr(C)]
pub struct HardwareAddress([u8; 0]);
#[repr(C)]
pub struct Scoreboard([u8; 0]);

/// `qemu_info_t`, up to the fields that are read.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version: [c_int; 2],
    pub system_emulation: bool,
    pub cpus: c_int,
}

/// `qemu_plugin_u64`: one counter of each CPU.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Counter {
    pub score: *mut Scoreboard,
    pub offset: usize,
}

// SAFETY: a scoreboard is made for use from all CPUs' threads.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const ADD: c_uint = 0;
/// `QEMU_PLUGIN_CB_NO_REGS`.
pub const NO_REGISTERS: c_uint = 0;
/// `QEMU_PLUGIN_CB_R_REGS`.
pub const READS_REGISTERS: c_uint = 1;
/// `QEMU_PLUGIN_COND_NE`, in `enum qemu_plugin_cond`.
pub const NOT_EQUAL: c_uint = 3;
/// `QEMU_PLUGIN_COND_GE`.
pub const AT_LEAST: c_uint = 7;
/// `QEMU_PLUGIN_MEM_RW`.
pub const READS_AND_WRITES: c_uint = 3;

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub struct Register {
    pub handle: *mut c_void,
    pub name: *const c_char,
    pub feature: *const c_char,
}

/// GLib's `GArray` and `GByteArray`, up to their length.
#[repr(C)]
pub struct Array<T> {
    pub data: *const T,
    pub len: c_uint,
}

pub type CpuCallback = extern "C" fn(Id, c_uint);
pub type TranslateCallback = extern "C" fn(Id, *mut Tb);
pub type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);
pub type MemoryCallback = extern "C" fn(c_uint, c_uint, u64, *mut c_void);
pub type ExitCallback = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: TranslateCallback);
    pub fn qemu_plugin_register_atexit_cb(id: Id, callback: ExitCallback, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, place: usize) -> *mut Insn;
    /// Where it is executed for the first time; for others it may have another address.
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb: *mut Tb,
        operation: c_uint,
        counter: Counter,
        value: u64,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        callback: ExecuteCallback,
        flags: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        callback: ExecuteCallback,
        flags: c_uint,
        condition: c_uint,
        counter: Counter,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, length: usize) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    /// Returns a string of the caller's, from GLib's allocator, which is malloc.
    pub fn qemu_plugin_insn_disas(insn: *const Insn) -> *mut c_char;
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: ExecuteCallback,
        flags: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cond_cb(
        insn: *mut Insn,
        callback: ExecuteCallback,
        flags: c_uint,
        condition: c_uint,
        counter: Counter,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        operation: c_uint,
        counter: Counter,
        value: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemoryCallback,
        flags: c_uint,
        kinds: c_uint,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_is_store(info: c_uint) -> bool;
    /// The logarithm of the access's bytes.
    pub fn qemu_plugin_mem_size_shift(info: c_uint) -> c_uint;
    /// Null in user emulation; otherwise valid until the callback returns.
    pub fn qemu_plugin_get_hwaddr(info: c_uint, address: u64) -> *const HardwareAddress;
    pub fn qemu_plugin_hwaddr_is_io(address: *const HardwareAddress) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const HardwareAddress) -> u64;
    pub fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_u64_sum(counter: Counter) -> u64;
    pub fn qemu_plugin_u64_set(counter: Counter, cpu: c_uint, value: u64);
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: CpuCallback);
    /// An array of the caller's; called on a CPU's thread.
    pub fn qemu_plugin_get_registers() -> *mut Array<Register>;
    /// Appends the value; called on a CPU's thread. Not positive where it cannot be read.
    pub fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array<u8>) -> c_int;
    pub fn g_byte_array_new() -> *mut Array<u8>;
    pub fn g_byte_array_unref(array: *mut Array<u8>);
    pub fn g_array_unref(array: *mut Array<Register>);
    pub fn qemu_plugin_outs(text: *const c_char);
    pub fn free(memory: *mut c_void);
}
