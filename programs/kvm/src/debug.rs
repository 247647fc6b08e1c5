//! Debugging of a guest: steps, BRK, breakpoints, watchpoints; and injected exceptions.

use std::arch::global_asm;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::host::{self, MEMORY, PC, X0, get, machine, pass, set, system};

const SET_DEBUG: u64 = 0x4208_ae9b;
const GET_EVENTS: u64 = 0x8040_ae9f;
const SET_EVENTS: u64 = 0x4040_aea0;
const ENABLE: u64 = 1;
const STEP: u64 = 2;
const BREAK: u64 = 1 << 16;
const POINTS: u64 = 1 << 17;
/// PSTATE and VBAR_EL1.
const PSTATE: u64 = X0 | 66;
const VECTORS: u64 = system(3, 0, 12, 0, 0);
/// The address of the guest's page of data, and the offsets of its parts in memory.
const DATA: u64 = MEMORY + 0x8000;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [23, 41, 178] {
        println!(
            "extension {capability}: {}",
            kvm.check_extension_raw(capability)
        );
    }
    let (vm, _) = machine(kvm, code!(debug_start, debug_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    println!("odd control: {}", debug(&vcpu, 1 << 5, &[]));
    println!("steps: {}", debug(&vcpu, ENABLE | STEP, &[]));
    for _ in 0..12 {
        println!("step: {}", run(&mut vcpu));
    }
    println!("stops: {}", debug(&vcpu, ENABLE | BREAK, &[]));
    println!("break: {}", run(&mut vcpu));
    // Skips the BRK, as a debugger does.
    let pc = get(&vcpu, PC).expect("pc");
    set(&vcpu, PC, pc + 4).expect("pc");
    let here = pc + 8;
    println!(
        "point: {}",
        debug(&vcpu, ENABLE | POINTS, &[(0, here, 0x1e7)])
    );
    println!("reaches it: {}", run(&mut vcpu));
    println!(
        "watch: {}",
        debug(&vcpu, ENABLE | POINTS, &[(1, DATA, 0xff << 5 | 0x1f)])
    );
    println!("reaches it: {}", run(&mut vcpu));
    println!(
        "guest's own point: {:x?}",
        get(&vcpu, system(2, 0, 0, 0, 4))
    );
    println!("nothing: {}", debug(&vcpu, 0, &[]));
    println!("goes on: {}", run(&mut vcpu));
    events(&mut vcpu);
    registers(&vcpu);
    restored(kvm);
}

/// Calls KVM_SET_GUEST_DEBUG with `control` and points: (0 for a breakpoint or 1 for a watchpoint,
/// value, control).
fn debug(vcpu: &VcpuFd, control: u64, points: &[(usize, u64, u64)]) -> String {
    let mut request = [0u64; 65];
    request[0] = control;
    for (kind, value, control) in points {
        request[1 + kind * 32] = *control;
        request[17 + kind * 32] = *value;
    }
    pass(vcpu, SET_DEBUG, &mut request)
}

fn run(vcpu: &mut VcpuFd) -> String {
    let told = match vcpu.run() {
        Ok(VcpuExit::Debug(debug)) => {
            let far = if debug.hsr >> 26 == 0x34 {
                debug.far - DATA
            } else {
                0
            };
            format!("class {:#x} {far:#x}", debug.hsr >> 26)
        }
        Ok(VcpuExit::MmioWrite(address, data)) => {
            format!(
                "writes at {:#x}: {:#x}",
                address - host::DEVICE,
                host::number(data)
            )
        }
        other => format!("{other:?}"),
    };
    format!(
        "{told} pc {:#x}",
        get(vcpu, PC).unwrap_or(0).wrapping_sub(MEMORY)
    )
}

fn events(vcpu: &mut VcpuFd) {
    let mut none = [0u64; 8];
    println!(
        "events: {} {:x?}",
        pass(vcpu, GET_EVENTS, &mut none),
        none[0] & 0xff
    );
    let mut odd = [1u64 | 1 << 8, 1 << 40, 0, 0, 0, 0, 0, 0];
    println!("odd syndrome: {}", pass(vcpu, SET_EVENTS, &mut odd));
    let mut error = [1u64 | 1 << 8, 0x123, 0, 0, 0, 0, 0, 0];
    println!("error: {}", pass(vcpu, SET_EVENTS, &mut error));
    let mut pending = [0u64; 8];
    println!(
        "pending: {} {:x?}",
        pass(vcpu, GET_EVENTS, &mut pending),
        &pending[..2]
    );
    println!("takes it: {}", run(vcpu));
    println!(
        "gone: {} {:x?}",
        pass(vcpu, GET_EVENTS, &mut pending),
        pending[0] & 0xff
    );
    let mut abort = [1u64 << 16, 0, 0, 0, 0, 0, 0, 0];
    println!("abort: {}", pass(vcpu, SET_EVENTS, &mut abort));
    println!("takes it: {}", run(vcpu));
}

/// The guest's debug registers are independent of those that the VMM uses.
fn registers(vcpu: &VcpuFd) {
    for (what, register) in [
        ("DBGBVR1", system(2, 0, 0, 1, 4)),
        ("DBGWCR0", system(2, 0, 0, 0, 7)),
        ("MDSCR", system(2, 0, 0, 2, 2)),
        ("MDCCINT", system(2, 0, 0, 2, 0)),
        ("OSLSR", system(2, 0, 1, 1, 4)),
        ("nothing", system(2, 0, 0, 1, 0)),
    ] {
        println!("{what}: {:x?}", get(vcpu, register));
    }
    let value = system(2, 0, 0, 1, 4);
    println!(
        "set: {:?} {:x?}",
        set(vcpu, value, 0x1234),
        get(vcpu, value)
    );
}

/// A guest that is restored with debug registers in use runs with them, even before it accesses
/// one.
fn restored(kvm: &Kvm) {
    let control = system(2, 0, 0, 2, 2);
    let (kernel, monitor) = (1 << 13, 1 << 15);
    let cases: [(&str, u64, &[(u64, u64)]); 4] = [
        (
            "a breakpoint",
            0x20,
            &[
                (system(2, 0, 0, 0, 4), MEMORY + 0x28),
                (system(2, 0, 0, 0, 5), 0x1e3),
                (control, kernel | monitor),
            ],
        ),
        (
            "a watchpoint",
            0x3c,
            &[
                (control, kernel | monitor),
                (system(2, 0, 0, 1, 6), DATA),
                (system(2, 0, 0, 1, 7), 0x1ffb),
            ],
        ),
        ("a step", 0x20, &[(control, kernel | 1)]),
        (
            "none",
            0x20,
            &[
                (system(2, 0, 0, 0, 4), MEMORY + 0x28),
                (system(2, 0, 0, 0, 5), 0x1e3),
            ],
        ),
    ];
    for (what, start, debug) in cases {
        let (vm, _) = machine(kvm, code!(debug_start, debug_end));
        let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
        host::reset(&vm, &vcpu);
        let others = [
            (PC, MEMORY + start),
            (X0 | 40, host::DEVICE),
            (VECTORS, MEMORY + 0x800),
            // EL1h, with debug exceptions unmasked, and PSTATE.SS set.
            (PSTATE, 1 << 21 | 0x1c5),
        ];
        for (register, value) in debug.iter().chain(&others) {
            set(&vcpu, *register, *value).expect("a register");
        }
        println!("restored with {what}: {}", run(&mut vcpu));
        println!("reads {:x?}", get(&vcpu, control));
    }
}

global_asm!(
    ".pushsection .rodata.debug, \"a\"",
    ".balign 2048",
    ".global debug_start, debug_end",
    "debug_start:",
    // Stepped: plain instructions, one that traps, an access to a device, a read of an ID register.
    "   mov x20, #0x0b000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    "   mov x0, #0x8600",
    "   lsl x0, x0, #16",
    "   hvc #0",
    "   mrs x1, id_aa64pfr0_el1",
    "   str x20, [x20, #8]",
    "   b 1f",
    "   nop",
    "1: nop",
    "   nop",
    "   nop",
    "   brk #1",
    "   nop",
    "   nop",
    "   mov x1, #0x40000000",
    "   add x1, x1, #0x8000",
    "   nop",
    "   str x1, [x1, #4]",
    "   str x20, [x20, #16]",
    // Unmasks SError, and takes it and any other exception.
    "   msr daifclr, #4",
    "   isb",
    "   nop",
    "2: str x20, [x20, #24]",
    "   b 2b",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x0, esr_el1",
    "   str x0, [x20, #32]",
    "   adr x0, 2b",
    "   msr elr_el1, x0",
    "   eret",
    ".endr",
    "debug_end:",
    ".popsection",
);
