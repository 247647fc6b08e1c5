//! Helpers of all parts: raw requests, memory, and VMs with one small guest.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use kvm_bindings::{
    KVM_ARM_VCPU_PSCI_0_2, kvm_device_attr, kvm_userspace_memory_region as Region,
    kvm_vcpu_init as Init,
};
use kvm_ioctls::{DeviceFd, Kvm, VcpuFd, VmFd};

/// The guest's addresses of its memory, of a device of the VMM, and of the interrupt controller.
pub const MEMORY: u64 = 0x4000_0000;
pub const DEVICE: u64 = 0x0b00_0000;
pub const DISTRIBUTOR: u64 = 0x0800_0000;
pub const REDISTRIBUTORS: u64 = 0x0a00_0000;
/// The sizes of a guest's memory and of a page.
pub const LEN: usize = 1 << 20;
pub const PAGE: usize = 4096;
/// Core registers: x0, the program counter.
pub const X0: u64 = 0x6030_0000_0010_0000;
pub const PC: u64 = X0 | 64;

/// The result of a request, or its errno.
pub fn call(file: &impl AsRawFd, request: u64, argument: usize) -> String {
    // SAFETY: the requests made here take numbers, or addresses of live objects.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    match result {
        -1 => std::io::Error::last_os_error()
            .raw_os_error()
            .map_or("?".into(), |errno| format!("errno {errno}")),
        number => number.to_string(),
    }
}

/// Like [`call`], with a structure as argument.
pub fn pass<T>(file: &impl AsRawFd, request: u64, structure: &mut T) -> String {
    call(file, request, &raw mut *structure as usize)
}

/// Maps private zeroed memory.
pub fn memory(len: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, 3, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.cast()
}

/// Reads a word that a guest may write meanwhile.
pub fn peek(base: *mut u8, offset: usize) -> u64 {
    // SAFETY: callers stay inside their mappings.
    unsafe { base.add(offset).cast::<u64>().read_volatile() }
}

/// Writes a word that a guest may read meanwhile.
pub fn poke(base: *mut u8, offset: usize, value: u64) {
    // SAFETY: as above.
    unsafe { base.add(offset).cast::<u64>().write_volatile(value) };
}

/// Sets a memory slot.
pub fn slot(vm: &VmFd, number: u32, flags: u32, guest: u64, base: *mut u8, len: usize) -> String {
    let mut region = Region {
        slot: number,
        flags,
        guest_phys_addr: guest,
        memory_size: len as u64,
        userspace_addr: base as u64,
    };
    pass(vm, 0x4020_ae46, &mut region)
}

/// Creates a VM whose guest memory begins with `code`.
pub fn machine(kvm: &Kvm, code: &[u32]) -> (VmFd, *mut u8) {
    let (vm, base) = (kvm.create_vm().expect("a VM"), memory(LEN));
    write(base, code);
    assert_eq!(slot(&vm, 0, 0, MEMORY, base, LEN), "0");
    (vm, base)
}

/// Copies code to the start of a guest's memory.
pub fn write(base: *mut u8, code: &[u32]) {
    // SAFETY: the code is shorter than the mapping.
    unsafe {
        base.cast::<u32>()
            .copy_from_nonoverlapping(code.as_ptr(), code.len())
    };
}

/// Resets a vCPU, to start at the start of the guest's memory.
pub fn reset(vm: &VmFd, vcpu: &VcpuFd) {
    let mut init = Init::default();
    vm.get_preferred_target(&mut init).expect("a target");
    init.features[0] = 1 << KVM_ARM_VCPU_PSCI_0_2;
    vcpu.vcpu_init(&init).expect("init");
    set(vcpu, PC, MEMORY).expect("pc");
}

/// Creates an interrupt controller without setting it up.
pub fn unset_controller(vm: &VmFd) -> DeviceFd {
    let mut device = kvm_bindings::kvm_create_device {
        type_: 7,
        fd: 0,
        flags: 0,
    };
    vm.create_device(&mut device).expect("a controller")
}

/// Creates an interrupt controller for `vcpus`, fully set up.
pub fn controller(vm: &VmFd, vcpus: u64) -> DeviceFd {
    let controller = unset_controller(vm);
    for (group, attr, value) in [
        (0, 2, DISTRIBUTOR),
        (0, 5, REDISTRIBUTORS | vcpus << 52),
        (3, 0, 96),
        (4, 0, 0),
    ] {
        let attribute = kvm_device_attr {
            group,
            attr,
            addr: &raw const value as u64,
            flags: 0,
        };
        controller.set_device_attr(&attribute).expect("attribute");
    }
    controller
}

/// Reads a 64-bit register.
pub fn get(vcpu: &VcpuFd, register: u64) -> Result<u64, i32> {
    let mut bytes = [0; 8];
    vcpu.get_one_reg(register, &mut bytes)
        .map_err(|error| error.errno())?;
    Ok(u64::from_le_bytes(bytes))
}

/// Sets a 64-bit register.
pub fn set(vcpu: &VcpuFd, register: u64, value: u64) -> Result<usize, i32> {
    vcpu.set_one_reg(register, &value.to_le_bytes())
        .map_err(|error| error.errno())
}

/// The register id of a system register.
pub const fn system(op0: u64, op1: u64, n: u64, m: u64, op2: u64) -> u64 {
    0x6030_0000_0013_0000 | op0 << 14 | op1 << 11 | n << 7 | m << 3 | op2
}

/// Creates a non-blocking eventfd.
pub fn eventfd() -> OwnedFd {
    // SAFETY: creates a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
    assert!(fd >= 0);
    // SAFETY: the descriptor was just created.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Reads the count of an eventfd.
pub fn count(fd: &OwnedFd) -> u64 {
    let mut value = 0u64;
    // SAFETY: the buffer has eight bytes.
    let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut value).cast(), 8) };
    if read == 8 { value } else { 0 }
}

/// Adds one to an eventfd.
pub fn signal(fd: &OwnedFd) {
    let value = 1u64;
    // SAFETY: the buffer has eight bytes.
    let written = unsafe { libc::write(fd.as_raw_fd(), (&raw const value).cast(), 8) };
    assert_eq!(written, 8);
}

/// Pins this thread, and those that it starts, to one CPU.
pub fn stay() {
    stay_on(0);
}

/// Pins this thread, and those that it starts, to CPU `cpu`.
pub fn stay_on(cpu: usize) {
    // SAFETY: all zeroes is an empty set, and the set is valid for the call.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    assert_eq!(done, 0);
}

/// The CPU time that the calling thread has used.
pub fn processor_time() -> Duration {
    // SAFETY: all zeroes is a valid time, and it outlives the call.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Sends a signal without effect each time that `after` has passed, so that one interrupts the call
/// under test. Zero stops that.
pub fn strike(after: Duration) {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: the handler does nothing, and both structures are valid for the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut timer: libc::itimerval = std::mem::zeroed();
        timer.it_value.tv_usec = after.as_micros() as _;
        timer.it_interval = timer.it_value;
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// The number in bytes written to a device.
pub fn number(data: &[u8]) -> u64 {
    data.iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The words between two labels of an assembly block.
#[macro_export]
macro_rules! code {
    ($start:ident, $end:ident) => {{
        unsafe extern "C" {
            static $start: u32;
            static $end: u32;
        }
        let (start, end) = (&raw const $start, &raw const $end);
        // SAFETY: both are labels of one block, in this order.
        unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
    }};
}
