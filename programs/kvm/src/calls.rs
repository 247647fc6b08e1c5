//! A guest's calls that its VMM handles or denies by KVM_ARM_VM_SMCCC_FILTER; and its suspension.

use std::arch::global_asm;
use std::time::Duration;

use kvm_bindings::kvm_device_attr;
use kvm_ioctls::{DeviceFd, Kvm, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, MEMORY, PC, X0, call, get, machine, pass, set};

const RUN: u64 = 0xae80;
const SET: u64 = 0x4018_aee1;
const HAS: u64 = 0x4018_aee3;
const GET_STATE: u64 = 0x8004_ae98;
const SET_STATE: u64 = 0x4004_ae99;
const ENABLE: u64 = 0x4068_aea3;
const IRQ_LINE: u64 = 0x4008_ae61;
/// States: running, off, suspended.
const STATES: [u32; 3] = [0, 5, 10];
/// Actions for a range of calls.
const DENY: u8 = 1;
const FORWARD: u8 = 2;

const PSCI_VERSION: u32 = 0x8400_0000;
const PSCI_FEATURES: u32 = 0x8400_000a;
const SYSTEM_SUSPEND: [u32; 2] = [0x8400_000e, 0xc400_000e];
const SMCCC_VERSION: u32 = 0x8000_0000;
/// An SPI.
const INTERRUPT: u32 = 40;

#[repr(C)]
struct Filter {
    first: u32,
    count: u32,
    action: u8,
    zeroes: [u8; 15],
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    println!("extension 216: {}", kvm.check_extension_raw(216));
    ranges(kvm);
    filtered(kvm);
    suspended(kvm);
    started(kvm);
}

fn filter(vm: &VmFd, first: u32, count: u32, action: u8) -> String {
    let zeroes = [0; 15];
    given(
        vm,
        &Filter {
            first,
            count,
            action,
            zeroes,
        },
    )
}

fn given(vm: &VmFd, filter: &Filter) -> String {
    pass(vm, SET, &mut [0, 0, std::ptr::from_ref(filter) as u64])
}

fn ranges(kvm: &Kvm) {
    let (vm, _) = machine(kvm, guest());
    for number in 0..2u64 {
        println!("has {number}: {}", pass(&vm, HAS, &mut [0, number, 0]));
    }
    println!("no address: {}", pass(&vm, SET, &mut [0u64, 0, 0]));
    println!("another: {}", pass(&vm, SET, &mut [0u64, 1, 0]));
    let odd = Filter {
        first: PSCI_VERSION,
        count: 1,
        action: DENY,
        zeroes: [1; 15],
    };
    println!("not zeroes: {}", given(&vm, &odd));
    for (what, first, count, action) in [
        ("of nothing", PSCI_VERSION, 0, DENY),
        ("beyond the end", u32::MAX, u32::MAX, DENY),
        ("unknown", PSCI_VERSION, 1, 3),
        ("of the architecture", SMCCC_VERSION, 1, DENY),
        ("of its other width", 0xc000_ffff, 2, DENY),
        ("around it", 0x7fff_ffff, 0x2_0000, DENY),
        ("all", 0, u32::MAX, DENY),
        ("good", PSCI_VERSION, 2, DENY),
        ("again", PSCI_VERSION, 2, DENY),
        ("its end", PSCI_VERSION + 1, 1, 0),
        ("behind", PSCI_VERSION + 2, 1, 0),
        ("the last", u32::MAX, 1, FORWARD),
    ] {
        println!("{what}: {}", filter(&vm, first, count, action));
    }
}

fn filtered(kvm: &Kvm) {
    for action in [0, DENY, FORWARD] {
        let (vm, _) = machine(kvm, guest());
        println!("action {action}: {}", filter(&vm, PSCI_VERSION, 1, action));
        let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
        host::reset(&vm, &vcpu);
        for function in [PSCI_VERSION, SMCCC_VERSION, 0x1234_5678] {
            begin(&vcpu, function, 0);
            println!("function {function:#x}");
            while goes_on(&mut vcpu) {}
        }
        println!("later: {}", filter(&vm, 0x8600_0000, 1, action));
    }
}

fn suspended(kvm: &Kvm) {
    let (vm, _) = machine(kvm, guest());
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let controller = host::controller(&vm, 1);
    host::reset(&vm, &vcpu);
    for is_enabled in [false, true] {
        if is_enabled {
            let wanted = &mut [216u64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            println!("enabled: {}", pass(&vm, ENABLE, wanted));
        }
        for function in SYSTEM_SUSPEND {
            begin(&vcpu, PSCI_FEATURES, function.into());
            println!("has {function:#x}");
            while goes_on(&mut vcpu) {}
            begin(&vcpu, function, 0);
            println!("function {function:#x}");
            while goes_on(&mut vcpu) {}
        }
    }
    for state in STATES {
        println!("state {state}: {}", pass(&vcpu, SET_STATE, &mut { state }));
        let mut now = 0u32;
        println!("now: {} {now}", pass(&vcpu, GET_STATE, &mut now));
    }
    begin(&vcpu, 0x1234_5678, 0);
    vcpu.get_kvm_run().immediate_exit = 1;
    println!("not now: {}", call(&vcpu, RUN, 0));
    vcpu.get_kvm_run().immediate_exit = 0;
    listens(&controller);
    println!(
        "raised: {}",
        pass(&vm, IRQ_LINE, &mut [1 << 24 | INTERRUPT, 1])
    );
    for _ in 0..2 {
        goes_on(&mut vcpu);
    }
    println!(
        "lowered: {}",
        pass(&vm, IRQ_LINE, &mut [1 << 24 | INTERRUPT, 0])
    );
    sleeps(&mut vcpu);
    let mut now = 0u32;
    println!("now: {} {now}", pass(&vcpu, GET_STATE, &mut now));
    println!("runs: {}", pass(&vcpu, SET_STATE, &mut { STATES[0] }));
    while goes_on(&mut vcpu) {}
}

/// A pending SError does not wake a suspended vCPU, nor does the kernel poll for one.
fn sleeps(vcpu: &mut VcpuFd) {
    const SET_EVENTS: u64 = 0x4040_aea0;
    let mut pending = [0u8; 64];
    pending[0] = 1;
    println!("error: {}", pass(vcpu, SET_EVENTS, &mut pending));
    let before = host::processor_time();
    host::strike(Duration::from_millis(300));
    goes_on(vcpu);
    let used = host::processor_time() - before;
    host::strike(Duration::ZERO);
    println!("slept: {}", used < Duration::from_millis(150));
    pending[0] = 0;
    println!("no error: {}", pass(vcpu, SET_EVENTS, &mut pending));
}

/// The registers that the VMM sees of a vCPU that another has started and that has not run yet.
fn started(kvm: &Kvm) {
    const CPU_ON: u32 = 0xc400_0003;
    let (vm, _) = machine(kvm, guest());
    let mut vcpus = [0, 1].map(|number| vm.create_vcpu(number).expect("a vCPU"));
    vcpus.iter().for_each(|vcpu| host::reset(&vm, vcpu));
    let [first, second] = &mut vcpus;
    println!("off: {}", pass(second, SET_STATE, &mut { STATES[1] }));
    begin(first, CPU_ON, 1);
    for (register, value) in [(4, 0x1234_5678), (6, 0x9abc)] {
        set(first, X0 | register, value).expect("an argument");
    }
    goes_on(first);
    println!("{:x?} {:x?}", get(second, PC), get(second, X0));
}

/// Enables the interrupt in the guest's controller and CPU interface; PSTATE masks it.
fn listens(controller: &DeviceFd) {
    const DISTRIBUTOR: u32 = 1;
    const CPU: u32 = 6;
    let bit = 1 << (INTERRUPT % 32);
    for (group, attr, value) in [
        (DISTRIBUTOR, 0, 0x12),
        // Level-sensitive.
        (DISTRIBUTOR, u64::from(0xc00 + INTERRUPT / 16 * 4), 0),
        (DISTRIBUTOR, 0x84, bit),
        (DISTRIBUTOR, 0x104, bit),
        (CPU, host::system(3, 0, 4, 6, 0) & 0xffff, 0xf0),
        (CPU, host::system(3, 0, 12, 12, 7) & 0xffff, 1),
    ] {
        let value: u64 = value;
        let attribute = kvm_device_attr {
            group,
            attr,
            addr: &raw const value as u64,
            flags: 0,
        };
        controller.set_device_attr(&attribute).expect("a register");
    }
}

/// Prepares the guest to make the call by HVC, by SMC, and by SMC with an immediate; it reports
/// each result.
fn begin(vcpu: &VcpuFd, function: u32, argument: u64) {
    set(vcpu, PC, MEMORY).expect("pc");
    set(vcpu, X0, function.into()).expect("x0");
    set(vcpu, X0 | 2, argument).expect("x1");
}

/// Runs the guest up to its next exit and prints that; false for the guest's last.
fn goes_on(vcpu: &mut VcpuFd) -> bool {
    let result = call(vcpu, RUN, 0);
    let run = vcpu.get_kvm_run();
    // SAFETY: the exit reason says which field was written, and all are numbers.
    let (exit, goes_on) = unsafe {
        let exits = &run.__bindgen_anon_1;
        match run.exit_reason {
            3 => {
                let (nr, flags) = (exits.hypercall.nr, exits.hypercall.__bindgen_anon_1.flags);
                let rest = exits
                    .hypercall
                    .args
                    .iter()
                    .fold(exits.hypercall.ret, |all, one| all | one);
                (format!("call {nr:#x} with {flags}, {rest}"), true)
            }
            6 => {
                let answer = host::number(&exits.mmio.data);
                (
                    format!("answer {answer:#x}"),
                    exits.mmio.phys_addr & 0xff != 16,
                )
            }
            24 => {
                let (kind, count) = (exits.system_event.type_, exits.system_event.ndata);
                (format!("event {kind} with {count}"), true)
            }
            other => (format!("exit {other}"), false),
        }
    };
    println!("{result}: {exit}");
    goes_on
}

fn guest() -> &'static [u32] {
    code!(calls_start, calls_end)
}

global_asm!(
    ".pushsection .rodata.calls, \"a\"",
    ".balign 8",
    "calls_start:",
    "   movz x20, #0x0b00, lsl #16",
    "   mov x19, x0",
    "   mov x21, x1",
    "   hvc #0",
    "   str x0, [x20]",
    "   mov x0, x19",
    "   mov x1, x21",
    "   .inst 0xd4000003",
    "   str x0, [x20, #8]",
    "   mov x0, x19",
    "   mov x1, x21",
    "   .inst 0xd4000023",
    "   str x0, [x20, #16]",
    "   b .",
    "calls_end:",
    ".popsection",
);
