//! Writes to devices that are coalesced in a ring (KVM_REGISTER_COALESCED_MMIO).

use std::arch::global_asm;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, DEVICE, PAGE, machine, pass};

const REGISTER: u64 = 0x4010_ae67;
const UNREGISTER: u64 = 0x4010_ae68;
/// The address and the length of the zone.
const ZONE: u64 = DEVICE + 0x100;
const LEN: u32 = 0x20;
/// Entries of the ring, by the formula in `linux/kvm.h`; one stays free.
const ENTRIES: u32 = 170;

/// `struct kvm_coalesced_mmio_ring`, as words.
struct Ring<'a>(&'a [AtomicU32; PAGE / 4]);

impl Ring<'_> {
    fn of(vcpu: &VcpuFd) -> Self {
        let (fd, place) = (vcpu.as_raw_fd(), PAGE as i64);
        // SAFETY: a new mapping.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE, 3, libc::MAP_SHARED, fd, place) };
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: the mapping stays, and both sides access it by words.
        Ring(unsafe { &*page.cast() })
    }

    fn word(&self, at: u32) -> u32 {
        self.0[at as usize].load(SeqCst)
    }

    /// Removes and returns all entries; none if the ring's end is out of range.
    fn take(&self) -> Vec<String> {
        let last = self.word(1);
        let mut taken = Vec::new();
        if last >= ENTRIES {
            return taken;
        }
        while self.word(0) != last {
            let at = 2 + 6 * self.word(0);
            let pair = |at| u64::from(self.word(at)) | u64::from(self.word(at + 1)) << 32;
            let (address, len) = (pair(at), self.word(at + 2));
            let value = pair(at + 4) & u64::MAX >> (64 - 8 * len);
            let port = self.word(at + 3);
            taken.push(format!(
                "{len} at {:#x}: {value:#x} {port}",
                address - DEVICE
            ));
            self.0[0].store((self.word(0) + 1) % ENTRIES, SeqCst);
        }
        taken
    }
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [15, 162] {
        let value = kvm.check_extension_raw(capability);
        println!("extension {capability}: {value}");
    }
    println!(
        "pages: {:?}",
        kvm.get_vcpu_mmap_size().map(|len| len / PAGE)
    );
    let (vm, _) = machine(kvm, code!(coalesced_start, coalesced_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    let ring = Ring::of(&vcpu);
    println!(
        "neither memory nor ports: {}",
        zone(&vm, REGISTER, ZONE, LEN, 2)
    );
    println!("none: {}", zone(&vm, UNREGISTER, ZONE, LEN, 0));
    println!("nonsense: {}", zone(&vm, UNREGISTER, ZONE, LEN, 2));
    println!("ports: {}", zone(&vm, REGISTER, ZONE, LEN, 1));
    for part in [0, 8] {
        let result = zone(&vm, REGISTER, ZONE + part, LEN - part as u32, 0);
        println!("zone from {part} on: {result}");
    }
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => {
                let (place, len, value) = (address - DEVICE, data.len(), host::number(data));
                println!("exit: {len} at {place:#x}: {value:#x}");
            }
            Ok(VcpuExit::MmioRead(address, data)) => {
                println!("exit: reads {} at {:#x}", data.len(), address - DEVICE);
            }
            Ok(VcpuExit::SystemEvent(kind, _)) => break println!("event {kind}"),
            other => break println!("{other:?}"),
        }
        let taken = ring.take();
        match &taken[..] {
            [first, .., last] if taken.len() > 8 => {
                println!("waited: {} from {first} to {last}", taken.len());
            }
            few => println!("waited: {few:?}"),
        }
        match vcpu_place(&vcpu) {
            1 => println!("part: {}", zone(&vm, UNREGISTER, ZONE + 8, 8, 0)),
            2 => ring.0[1].store(ENTRIES, SeqCst),
            3 => [0, 1]
                .iter()
                .for_each(|at: &usize| ring.0[*at].store(0, SeqCst)),
            _ => {}
        }
    }
}

/// The guest's progress, in x10.
fn vcpu_place(vcpu: &VcpuFd) -> u64 {
    host::get(vcpu, host::X0 | 20).expect("x10")
}

fn zone(vm: &VmFd, request: u64, address: u64, len: u32, ports: u32) -> String {
    let len = u64::from(len) | u64::from(ports) << 32;
    pass(vm, request, &mut [address, len])
}

global_asm!(
    ".pushsection .rodata.coalesced, \"a\"",
    ".balign 2048",
    ".global coalesced_start, coalesced_end",
    "coalesced_start:",
    "   ldr x20, =0x0b000000",
    "   mov x10, #0",
    "   ldr x0, =0x1122334455667788",
    // Inside the zone, around it and across its end.
    "   strb w0, [x20, #0x100]",
    "   strh w0, [x20, #0x102]",
    "   str w0, [x20, #0x104]",
    "   str x0, [x20, #0x108]",
    "   str w0, [x20, #0x11c]",
    "   str w0, [x20, #0xfc]",
    "   str w0, [x20, #0x120]",
    "   ldr w1, [x20, #0x100]",
    // More writes than the ring has entries.
    "   mov x1, #0",
    "1: str w1, [x20, #0x110]",
    "   add x1, x1, #1",
    "   cmp x1, #200",
    "   b.ne 1b",
    // No write is coalesced while the ring's end, set by the VMM, is out of range.
    "   mov x10, #2",
    "   str w0, [x20]",
    "   mov x10, #0",
    "   str w0, [x20, #0x110]",
    "   mov x10, #3",
    "   str w0, [x20]",
    "   mov x10, #0",
    "   str w0, [x20, #0x110]",
    // Unregistering a part removes its zone, and the other zone that contains this part.
    "   mov x10, #1",
    "   str w0, [x20]",
    "   mov x10, #0",
    "   str w0, [x20, #0x110]",
    "   str w0, [x20, #0x100]",
    "   ldr x0, =0x84000008",
    "   hvc #0",
    ".ltorg",
    "coalesced_end:",
    ".popsection",
);
