//! Virtual machines, by plain KVM requests.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use random::Random;

/// The address and the size of a guest's memory.
pub const MEMORY: u64 = 0x4000_0000;
pub const LEN: usize = 1 << 20;
/// The inaccessible bytes after the memory.
const GUARD: usize = 1 << 16;
/// The guest's addresses of the interrupt controller.
pub const DISTRIBUTOR: u64 = 0x0800_0000;
pub const REDISTRIBUTORS: u64 = 0x0900_0000;

/// Requests (`include/uapi/linux/kvm.h`).
pub const CREATE_VM: u64 = 0xae01;
pub const CREATE_VCPU: u64 = 0xae41;
pub const SET_REGION: u64 = 0x4020_ae46;
pub const PREFERRED_TARGET: u64 = 0x8020_aeaf;
pub const CREATE_DEVICE: u64 = 0xc00c_aee0;
pub const SET_ATTRIBUTE: u64 = 0x4018_aee1;
pub const RUN: u64 = 0xae80;
pub const INIT: u64 = 0x4020_aeae;
pub const SET_REGISTER: u64 = 0x4010_aeac;

/// The shared page of a vCPU, as far as it is used here.
#[repr(C)]
pub struct Page {
    pub window: u8,
    pub immediate_exit: u8,
    rest: [u8; 4094],
}

/// Opens /dev/kvm.
pub fn system() -> OwnedFd {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::open(c"/dev/kvm".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    assert!(fd >= 0, "/dev/kvm");
    // SAFETY: the descriptor was just opened.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Makes a request; returns a negative number if it failed.
pub fn call(fd: RawFd, request: u64, argument: u64) -> i32 {
    // SAFETY: for any argument, the kernel writes only to buffers of requests, and guests only to
    // their own memory.
    unsafe { libc::ioctl(fd, request as _, argument) }
}

/// Makes a request that creates a descriptor.
pub fn make(fd: RawFd, request: u64, argument: u64) -> Option<OwnedFd> {
    let made = call(fd, request, argument);
    // SAFETY: the descriptor was just created.
    (made >= 0).then(|| unsafe { OwnedFd::from_raw_fd(made) })
}

/// Memory of a guest, or for the arguments of requests.
pub struct Memory {
    pub base: *mut u8,
    pub len: usize,
    /// The length with the guard.
    mapped: usize,
}

// SAFETY: guests and threads may all write at once: nothing here relies on the content.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps zeroed memory with inaccessible pages after it, so that a request that begins near the
    /// end does no harm.
    pub fn new(len: usize) -> Self {
        let mapped = len + GUARD;
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), mapped, rights, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        // SAFETY: the end of the new mapping.
        unsafe { libc::mprotect(base.add(len), GUARD, libc::PROT_NONE) };
        Memory {
            base: base.cast(),
            len,
            mapped,
        }
    }

    /// Maps the page that a vCPU shares.
    pub fn of_vcpu(fd: RawFd) -> Option<Self> {
        let (rights, len) = (libc::PROT_READ | libc::PROT_WRITE, 4096);
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, fd, 0) };
        (base != libc::MAP_FAILED).then_some(Memory {
            base: base.cast(),
            len,
            mapped: len,
        })
    }

    /// Discards a page: it reads as zeroes again.
    pub fn let_go(&self, offset: usize) {
        assert!(offset + 4096 <= self.len);
        // SAFETY: a page of the mapping; nothing relies on its content.
        unsafe { libc::madvise(self.base.add(offset).cast(), 4096, libc::MADV_DONTNEED) };
    }

    /// Writes one word.
    pub fn write(&self, offset: usize, word: u32) {
        assert!(offset + 4 <= self.len);
        // SAFETY: within the mapping; a guest may see any of it.
        unsafe { self.base.add(offset).cast::<u32>().write_volatile(word) };
    }

    /// Writes eight bytes.
    pub fn write_long(&self, offset: usize, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    /// Fills the memory with numbers that are often invalid.
    pub fn scribble(&self, random: &mut Random, words: usize) {
        (0..words).for_each(|at| self.write(at * 4, random.edge() as u32));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: only guests may still point into it, and they cope.
        unsafe { libc::munmap(self.base.cast(), self.mapped) };
    }
}

/// Sets a VM's memory.
pub fn give(vm: RawFd, memory: &Memory) {
    let region = [0, MEMORY, memory.len as u64, memory.base as u64];
    assert_eq!(call(vm, SET_REGION, region.as_ptr() as u64), 0, "memory");
}

/// Creates a VM's interrupt controller.
pub fn give_controller(vm: RawFd) -> OwnedFd {
    let mut request = [7u32, 0, 0];
    assert_eq!(
        call(vm, CREATE_DEVICE, request.as_mut_ptr() as u64),
        0,
        "a controller"
    );
    // SAFETY: the descriptor was just created.
    let device = unsafe { OwnedFd::from_raw_fd(request[1] as RawFd) };
    let set = |group: u64, number: u64, value: u64| {
        let attribute = [group << 32, number, &raw const value as u64];
        let fd = std::os::fd::AsRawFd::as_raw_fd(&device);
        assert_eq!(
            call(fd, SET_ATTRIBUTE, attribute.as_ptr() as u64),
            0,
            "attribute {number}"
        );
    };
    set(0, 2, DISTRIBUTOR);
    set(0, 3, REDISTRIBUTORS);
    set(4, 0, 0);
    device
}

/// Resets a vCPU, to start at `entry` unless it is off.
pub fn reset(vm: RawFd, vcpu: RawFd, entry: u64, off: bool) {
    let mut target = [0u32; 8];
    assert_eq!(
        call(vm, PREFERRED_TARGET, target.as_mut_ptr() as u64),
        0,
        "a target"
    );
    target[1] = 1 << 2 | u32::from(off);
    assert_eq!(call(vcpu, INIT, target.as_ptr() as u64), 0, "init");
    let register = [0x6030_0000_0010_0040, &raw const entry as u64];
    assert_eq!(call(vcpu, SET_REGISTER, register.as_ptr() as u64), 0, "pc");
}

/// Creates a VM, whose guest touches its memory, and destroys it.
pub fn come_and_go(random: &mut Random) {
    use std::os::fd::AsRawFd;
    let memory = Memory::new(LEN);
    let vm = make(system().as_raw_fd(), CREATE_VM, 0).expect("a VM");
    give(vm.as_raw_fd(), &memory);
    let vcpu = make(vm.as_raw_fd(), CREATE_VCPU, random.below(8)).expect("a vCPU");
    crate::code::touch(&memory);
    reset(vm.as_raw_fd(), vcpu.as_raw_fd(), MEMORY, false);
    assert_eq!(call(vcpu.as_raw_fd(), RUN, 0), 0, "the guest powers off");
}

/// Handles the signal that only interrupts vCPUs.
pub fn handle_signals() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: the handler does nothing; without SA_RESTART, interrupted calls return EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
    }
}
