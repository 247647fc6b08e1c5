//! Set-up of a GICv3 by requests, in the right order and in wrong ones, and a guest that takes
//! interrupts.

use std::arch::global_asm;

use kvm_bindings::{
    KVM_ARM_VCPU_PSCI_0_2, kvm_device_attr, kvm_userspace_memory_region as Region,
    kvm_vcpu_init as Init,
};
use kvm_ioctls::{DeviceFd, Kvm, VcpuExit, VcpuFd, VmFd};

use crate::host::{self, PC, call, set};

/// The guest's memory with its code, and a device of the VMM.
const MEMORY: u64 = 0x4000_0000;
const DEVICE: u64 = 0x0b00_0000;
/// Requests with a structure that is built here.
const CREATE_DEVICE: u64 = 0xc00c_aee0;
const IRQ_LINE: u64 = 0x4008_ae61;
const IRQ_LINE_STATUS: u64 = 0xc008_ae67;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    let mut request = [99u32, 0, 0];
    println!(
        "device 99: {}",
        call(&vm, CREATE_DEVICE, request.as_mut_ptr() as usize)
    );
    request = [7, 77, 1];
    println!(
        "would a GICv3: {}",
        call(&vm, CREATE_DEVICE, request.as_mut_ptr() as usize)
    );
    println!("line without a controller: {}", line(&vm, 1 << 24 | 40, 1));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let controller = create(&vm);
    println!(
        "another: {}",
        call(&vm, CREATE_DEVICE, [7u32, 0, 0].as_mut_ptr() as usize)
    );
    attributes(&controller);
    println!("a vCPU after it is complete: {}", call(&vm, 0xae41, 1));
    lines(&vm);
    guest(&vm, &mut vcpu);
    let last = kvm.create_vm().expect("a VM");
    let unfinished = last.create_vcpu(0).expect("a vCPU");
    let _controller = create(&last);
    init(&last, &unfinished);
    println!(
        "run before the controller is complete: {}",
        call(&unfinished, 0xae80, 0)
    );
}

fn create(vm: &VmFd) -> DeviceFd {
    let mut device = kvm_bindings::kvm_create_device {
        type_: 7,
        fd: 0,
        flags: 0,
    };
    vm.create_device(&mut device).expect("a controller")
}

fn line(vm: &VmFd, interrupt: u32, level: u32) -> String {
    call(vm, IRQ_LINE, [interrupt, level].as_ptr() as usize)
}

fn attributes(controller: &DeviceFd) {
    let change = |what: &str, group: u32, attr: u64, value: u64| {
        let attribute = kvm_device_attr {
            group,
            attr,
            addr: &raw const value as u64,
            flags: 0,
        };
        let result = controller.set_device_attr(&attribute);
        println!("{what}: {:?}", result.map_err(|error| error.errno()));
    };
    let has = |what: &str, group: u32, attr: u64| {
        let attribute = kvm_device_attr {
            group,
            attr,
            ..Default::default()
        };
        let result = controller.has_device_attr(&attribute);
        println!("has {what}: {:?}", result.map_err(|error| error.errno()));
    };
    has("a distributor", 0, 2);
    has("redistributors", 0, 3);
    has("regions", 0, 5);
    has("interrupts", 3, 0);
    has("an end of set-up", 4, 0);
    has("nonsense", 99, 0);
    change("nonsense", 99, 0, 0);
    change("an odd place", 0, 2, 0x0800_1000);
    change("a place too far up", 0, 2, 1 << 50);
    change("a place", 0, 2, 0x0800_0000);
    change("another place", 0, 2, 0x0900_0000);
    change("a region without room", 0, 5, 0x0a00_0000);
    change("a region with flags", 0, 5, 0x0a00_1000 | 2 << 52);
    change("a second region first", 0, 5, 0x0a00_0001 | 2 << 52);
    change("a region", 0, 5, 0x0a00_0000 | 2 << 52);
    change("a region on top", 0, 5, 0x0a02_0001 | 2 << 52);
    change("an old kind of region", 0, 3, 0x0c00_0000);
    change("33 interrupts", 3, 0, 33);
    change("32 interrupts", 3, 0, 32);
    change("2048 interrupts", 3, 0, 2048);
    change("96 interrupts", 3, 0, 96);
    change("128 interrupts", 3, 0, 128);
    change("the end", 4, 0, 0);
    change("the end again", 4, 0, 0);
    let mut interrupts = 0u32;
    let mut attribute = kvm_device_attr {
        group: 3,
        addr: &raw mut interrupts as u64,
        ..Default::default()
    };
    // SAFETY: the attribute is a 32-bit number.
    let result = unsafe { controller.get_device_attr(&mut attribute) };
    println!(
        "interrupts: {:?} {interrupts}",
        result.map_err(|error| error.errno())
    );
}

fn lines(vm: &VmFd) {
    for (what, interrupt) in [
        ("a shared one", 1 << 24 | 40),
        ("a private one", 2 << 24 | 20),
        ("an SGI", 2 << 24 | 3),
        ("a private one as shared", 1 << 24 | 20),
        ("one beyond the last", 1 << 24 | 96),
        ("one of no vCPU", 2 << 24 | 5 << 16 | 20),
        ("of no kind", 3 << 24 | 40),
        ("of a CPU", 40),
    ] {
        println!(
            "line of {what}: {} {}",
            line(vm, interrupt, 1),
            line(vm, interrupt, 0)
        );
    }
    let mut wanted = [1u32 << 24 | 40, 0];
    let told = call(vm, IRQ_LINE_STATUS, wanted.as_mut_ptr() as usize);
    println!("line with its status: {told} {}", wanted[0] & 0xff);
}

/// A private line belongs to the vCPU with that id, whatever the order of creation.
pub fn private_lines(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    let vcpus = [3, 1].map(|id| vm.create_vcpu(id).expect("a vCPU"));
    vcpus.iter().for_each(|vcpu| host::reset(&vm, vcpu));
    let controller = host::controller(&vm, 2);
    let high = |cpu: u64| {
        let mut lines = 0u32;
        let mut attribute = kvm_device_attr {
            group: 7,
            attr: cpu << 32,
            addr: &raw mut lines as u64,
            flags: 0,
        };
        // SAFETY: the value has 32 bits.
        let told = unsafe { controller.get_device_attr(&mut attribute) };
        told.map(|()| lines).map_err(|error| error.errno())
    };
    for id in 0..4 {
        let raised = line(&vm, 2 << 24 | id << 16 | (20 + id), 1);
        let all = [1, 3].map(high);
        println!("line of vCPU {id}: {raised} {all:x?}");
    }
}

fn init(vm: &VmFd, vcpu: &VcpuFd) {
    let mut init = Init::default();
    vm.get_preferred_target(&mut init).expect("a target");
    init.features[0] = 1 << KVM_ARM_VCPU_PSCI_0_2;
    vcpu.vcpu_init(&init).expect("init");
}

/// Runs the guest below and prints each of its writes.
fn guest(vm: &VmFd, vcpu: &mut VcpuFd) {
    let (start, end) = (&raw const interrupted_start, &raw const interrupted_end);
    // SAFETY: a new mapping, which is longer than the code between the labels.
    let base = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = libc::mmap(std::ptr::null_mut(), 1 << 16, 3, flags, -1, 0);
        base.cast::<u8>()
            .copy_from_nonoverlapping(start, end.offset_from_unsigned(start));
        base
    };
    let region = Region {
        slot: 0,
        flags: 0,
        guest_phys_addr: MEMORY,
        memory_size: 1 << 16,
        userspace_addr: base as u64,
    };
    // SAFETY: the memory stays mapped until the process ends.
    unsafe { vm.set_user_memory_region(region) }.expect("memory");
    init(vm, vcpu);
    set(vcpu, PC, MEMORY).expect("pc");
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => {
                let value = data
                    .iter()
                    .rev()
                    .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
                println!("interrupted writes at {:#x}: {value:#x}", address - DEVICE);
                match address - DEVICE {
                    0x100 => println!("line up: {}", line(vm, 1 << 24 | 40, 1)),
                    0x108 => println!("line down: {}", line(vm, 1 << 24 | 40, 0)),
                    _ => {}
                }
            }
            Ok(VcpuExit::SystemEvent(kind, _)) => return println!("interrupted event {kind}"),
            Ok(exit) => return println!("interrupted {exit:?}"),
            Err(error) if error.errno() == libc::EINTR => {}
            Err(error) => return println!("interrupted errno {}", error.errno()),
        }
    }
}

unsafe extern "C" {
    static interrupted_start: u8;
    static interrupted_end: u8;
}

global_asm!(
    ".pushsection .rodata.interrupted, \"a\"",
    ".balign 2048",
    "interrupted_start:",
    "   ldr x20, =0x0b000000",
    "   ldr x21, =0x08000000",
    "   ldr x22, =0x0a000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    // The distributor's identification.
    "   ldr w0, [x21, #0]",
    "   str w0, [x20, #0]",
    "   ldr w0, [x21, #4]",
    "   str w0, [x20, #4]",
    "   ldr x0, [x22, #8]",
    "   str x0, [x20, #8]",
    "   add x23, x22, #0x10000",
    "   ldr w0, [x23, #0x100]",
    "   str w0, [x20, #16]",
    "   ldr w0, [x23, #0xc00]",
    "   str w0, [x20, #20]",
    // Enables the distributor, interrupt 40 (level-sensitive) for this CPU, PPI 27, and the
    // interface.
    "   mov w0, #0x12",
    "   str w0, [x21]",
    "   mov w0, #0x100",
    "   str w0, [x21, #0x104]",
    "   mov w0, #1 << 27",
    "   str w0, [x23, #0x100]",
    interface_on!(),
    "   isb",
    // Pending while masked: an SGI to itself, of lower priority than interrupt 40, whose line was
    // high for a moment.
    "   mov w0, #0x80",
    "   strb w0, [x23, #0x403]",
    "   ldr x0, =0x03000001",
    "   msr s3_0_c12_c11_5, x0",
    "   isb",
    "   ldr w0, [x23, #0x200]",
    "   str w0, [x20, #24]",
    "   msr daifclr, #2",
    "   isb",
    "   str xzr, [x20, #0x100]",
    "   isb",
    // The timer's interrupt, during WFI.
    "   msr daifset, #2",
    "   mrs x0, cntvct_el0",
    "   add x0, x0, #0x1000",
    "   msr cntv_cval_el0, x0",
    "   mov x0, #1",
    "   msr cntv_ctl_el0, x0",
    "   isb",
    // A pending interrupt ends WFI, and is taken after it.
    "1: wfi",
    "   msr daifclr, #2",
    "   isb",
    "   msr daifset, #2",
    "   cbz x25, 1b",
    "   ldr w0, =0x84000008",
    "   hvc #0",
    "   b .",
    ".ltorg",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x1, s3_0_c12_c12_0",
    "   str w1, [x20, #0x80]",
    "   cmp w1, #27",
    "   b.ne 2f",
    "   msr cntv_ctl_el0, xzr",
    "   isb",
    "   mov x25, #1",
    "2: cmp w1, #40",
    "   b.ne 3f",
    "   str w1, [x20, #0x108]",
    "3: ldr w2, [x23, #0x300]",
    "   str w2, [x20, #0x84]",
    "   msr s3_0_c12_c12_1, x1",
    "   isb",
    "   ldr w2, [x23, #0x300]",
    "   str w2, [x20, #0x88]",
    "   eret",
    ".endr",
    "interrupted_end:",
    ".popsection",
);
