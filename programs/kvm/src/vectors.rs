//! Guests with and without SVE and pointer authentication, and without performance monitors: the
//! features that the VMM may request, those that the guest finds, and their registers.

use std::arch::{asm, global_asm};

use kvm_bindings::{RegList, kvm_vcpu_init as Init};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, DEVICE, MEMORY, PC, get, machine, pass, set, system};
use crate::own;

const INIT: u64 = 0x4020_aeae;
const FINALIZE: u64 = 0x4004_aec2;
/// vCPU features, by bit: PSCI, performance monitors, SVE, pointer authentication of addresses, and
/// generic authentication.
const PSCI: u32 = 1 << 2;
const COUNTERS: u32 = 1 << 3;
const SVE: u32 = 1 << 4;
const ADDRESSES: u32 = 1 << 5;
const GENERIC: u32 = 1 << 6;
/// Registers of SVE: the supported lengths, vectors and predicates by number, FFR after these; and
/// V0.
const LENGTHS: u64 = 0x6060_0000_0015_ffff;
const VECTOR: u64 = 0x6080_0000_0015_0000;
const PREDICATE: u64 = 0x6050_0000_0015_0400;
const V0: u64 = 0x6040_0000_0010_0054;
/// Other registers.
const CONTROL: u64 = system(3, 0, 1, 2, 0);
const INSTRUCTION_KEY: u64 = system(3, 0, 2, 1, 0);
const GENERIC_KEY: u64 = system(3, 0, 2, 3, 0);
const IDENTITIES: [(&str, u64); 5] = [
    ("ID_AA64PFR0_EL1.SVE", system(3, 0, 0, 4, 0)),
    ("ID_AA64ZFR0_EL1", system(3, 0, 0, 4, 4)),
    ("ID_AA64DFR0_EL1.PMUVer", system(3, 0, 0, 5, 0)),
    ("ID_AA64ISAR1_EL1", system(3, 0, 0, 6, 1)),
    ("ID_AA64ISAR2_EL1", system(3, 0, 0, 6, 2)),
];
/// The printed fields of these registers.
const FIELDS: [u64; 5] = [0xf << 32, 0xf, 0xf << 8, 0xff00_0ff0, 0xff00];
/// The address of the second part of the guest's code.
const WORKS: u64 = MEMORY + 0x400;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [126, 170, 171, 172] {
        println!(
            "extension {capability}: {}",
            kvm.check_extension_raw(capability)
        );
    }
    plain(kvm);
    full(kvm);
    let (vm, _) = machine(kvm, own::guest());
    let vcpu = vm.create_vcpu(0).expect("a vCPU");
    println!("another: {}", init(&vm, &vcpu, PSCI | SVE));
    println!("finalize: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    own::tell(&vcpu);
}

/// Initialises a vCPU with these features.
fn init(vm: &VmFd, vcpu: &VcpuFd, features: u32) -> String {
    let mut init = Init::default();
    vm.get_preferred_target(&mut init).expect("a target");
    init.features[0] = features;
    pass(vcpu, INIT, &mut init)
}

fn plain(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(vectors_start, vectors_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    for (what, features) in [
        ("counters", COUNTERS),
        ("addresses alone", ADDRESSES),
        ("all else alone", GENERIC),
        ("what is not known", 1 << 9),
        ("nothing of it", 0),
    ] {
        println!("{what}: {}", init(&vm, &vcpu, PSCI | features));
    }
    println!("others than before: {}", init(&vm, &vcpu, PSCI | SVE));
    let second = vm.create_vcpu(1).expect("a vCPU");
    println!("others than the first: {}", init(&vm, &second, PSCI | SVE));
    println!("finalize: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    registers(&vcpu);
    run(&mut vcpu, MEMORY, 17);
}

/// An address and another value signed with this program's keys.
fn signed() -> [u64; 5] {
    let mut signed = [0x5678_1234_9000; 5];
    let [ia, ib, da, db, ga] = &mut signed;
    // SAFETY: only computes.
    unsafe {
        asm!(
            ".arch_extension pauth",
            "pacia {0}, {5}",
            "pacib {1}, {5}",
            "pacda {2}, {5}",
            "pacdb {3}, {5}",
            "pacga {4}, {4}, {5}",
            ".arch_extension nopauth",
            inout(reg) *ia, inout(reg) *ib, inout(reg) *da, inout(reg) *db, inout(reg) *ga,
            in(reg) 7u64,
        )
    };
    signed
}

fn full(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(vectors_start, vectors_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let features = PSCI | SVE | ADDRESSES | GENERIC;
    println!("all of it: {}", init(&vm, &vcpu, features));
    println!("registers before: {:?}", vcpu.get_reg_list(&mut list()));
    println!("a vector before: {}", show(&vcpu, VECTOR, 256));
    println!("runs before: {:?}", vcpu.run().map(drop));
    println!("lengths: {}", show(&vcpu, LENGTHS, 64));
    for lengths in [0u128, 0b10, 1 << 16, 1 << 64, 0b1111] {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&lengths.to_le_bytes());
        println!(
            "lengths {lengths:#b}: {:?}",
            vcpu.set_one_reg(LENGTHS, &bytes)
        );
    }
    println!("finalize nothing: {}", pass(&vcpu, FINALIZE, &mut 3u32));
    println!("finalize: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    println!("again: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    println!("lengths: {}", show(&vcpu, LENGTHS, 64));
    println!("late lengths: {:?}", vcpu.set_one_reg(LENGTHS, &[1; 64]));
    registers(&vcpu);
    // Kernels differ in their values at reset.
    let keys = [
        (INSTRUCTION_KEY, 0x1234_5678),
        (INSTRUCTION_KEY + 1, 0x1111),
        (GENERIC_KEY, 0x9abc_def0),
        (GENERIC_KEY + 1, 0x2222),
    ];
    let set_keys = keys.map(|(key, value)| set(&vcpu, key, value));
    println!("keys: {set_keys:?}");
    let own = signed();
    run(&mut vcpu, MEMORY, 8);
    println!("the VMM signs as before: {}", signed() == own);

    let counted: Vec<u8> = (0..=255).collect();
    println!("sets a vector: {:?}", vcpu.set_one_reg(VECTOR, &counted));
    println!(
        "its second slice: {:?}",
        vcpu.set_one_reg(VECTOR | 1, &counted)
    );
    for (at, bits) in [(0, 0x5a), (16, 0x0f)] {
        let set = vcpu.set_one_reg(PREDICATE | at << 5, &[bits; 32]);
        println!("sets predicate {at}: {set:?}");
    }
    run(&mut vcpu, WORKS, 3);
    for (what, register, len) in [
        ("sum", VECTOR | 1 << 5, 256),
        ("predicate 1", PREDICATE | 1 << 5, 32),
        ("predicate 2", PREDICATE | 2 << 5, 32),
        ("FFR", PREDICATE | 16 << 5, 32),
    ] {
        println!("{what}: {}", show(&vcpu, register, len));
    }
    run(&mut vcpu, 0, 4);
    println!("sum: {}", show(&vcpu, VECTOR | 2 << 5, 256));
    println!("control: {:x?}", get(&vcpu, CONTROL));
    println!("key: {:x?}", get(&vcpu, GENERIC_KEY));
    println!("reset: {}", init(&vm, &vcpu, features));
    println!("sum: {}", show(&vcpu, VECTOR | 2 << 5, 256));
    println!("lengths: {}", show(&vcpu, LENGTHS, 64));
    println!("finalize: {}", pass(&vcpu, FINALIZE, &mut 4u32));
}

fn list() -> RegList {
    RegList::new(500).expect("a list")
}

/// Prints which of the optional registers exist.
fn registers(vcpu: &VcpuFd) {
    let mut names = list();
    println!("registers: {:?}", vcpu.get_reg_list(&mut names));
    let names = names.as_slice();
    let count = |first: u64, len: u64| {
        let inside = |name: &&u64| (first..first + len).contains(name);
        names.iter().filter(inside).count()
    };
    println!("vectors of FP: {}", count(V0, 128));
    println!("of SVE: {}", count(VECTOR, 0x1_0000));
    println!("predicates: {}", count(PREDICATE, 0x1000));
    println!("lengths: {}", count(LENGTHS, 1));
    println!("vectors' control: {}", count(CONTROL, 1));
    println!("keys: {}", count(INSTRUCTION_KEY, 18));
    let mut bytes = [0; 256];
    let readable = |name: &&u64| vcpu.get_one_reg(**name, &mut bytes).is_ok();
    println!(
        "all are there: {}",
        names.iter().filter(readable).count() == names.len()
    );
    for (what, register, len) in [
        ("V0", V0, 16),
        ("Z0", VECTOR, 256),
        ("lengths", LENGTHS, 64),
        ("no register", LENGTHS - 1, 64),
        ("control", CONTROL, 8),
    ] {
        println!("{what}: {}", show(vcpu, register, len));
    }
    println!("key: {:?}", get(vcpu, INSTRUCTION_KEY).map(drop));
    for ((what, register), field) in IDENTITIES.iter().zip(FIELDS) {
        println!(
            "{what}: {:x?}",
            get(vcpu, *register).map(|value| value & field)
        );
    }
}

/// A register's bytes, each run of equal ones shown once.
fn show(vcpu: &VcpuFd, register: u64, len: usize) -> String {
    let mut bytes = [0xee; 256];
    if let Err(error) = vcpu.get_one_reg(register, &mut bytes[..len]) {
        return format!("errno {}", error.errno());
    }
    let runs = bytes[..len].chunk_by(|one, other| one == other);
    let told: Vec<String> = runs
        .map(|run| match run.len() {
            1 => format!("{:x}", run[0]),
            len => format!("{:x}*{len}", run[0]),
        })
        .collect();
    told.join(" ")
}

/// Runs the guest from `pc`, or from where it is if that is 0, for `exits` exits.
fn run(vcpu: &mut VcpuFd, pc: u64, exits: usize) {
    if pc != 0 {
        set(vcpu, PC, pc).expect("pc");
    }
    for _ in 0..exits {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => {
                println!(
                    "writes at {:#x}: {:#x}",
                    address - DEVICE,
                    host::number(data)
                );
            }
            other => println!("{other:?}"),
        }
    }
    // Completes the last write.
    vcpu.set_kvm_immediate_exit(1);
    assert!(vcpu.run().is_err());
    vcpu.set_kvm_immediate_exit(0);
}

global_asm!(
    ".pushsection .rodata.vectors, \"a\"",
    ".balign 2048",
    ".arch_extension sve",
    ".arch_extension pauth",
    ".global vectors_start, vectors_end",
    "vectors_start:",
    "   mov x20, #0x0b000000",
    "   adr x0, 9f",
    "   msr vbar_el1, x0",
    // Disables traps of FP and SVE.
    "   mov x0, #0x330000",
    "   msr cpacr_el1, x0",
    "   isb",
    // Two writes if a register or an instruction does not exist, one if it does.
    ".macro tries instruction:vararg",
    "   mov x3, #0x77",
    "   \\instruction",
    "   str x3, [x20, #16]",
    ".endm",
    "   tries mrs x3, s3_3_c9_c12_0",
    "   tries mrs x3, s3_3_c9_c13_0",
    "   tries mrs x3, s3_0_c1_c2_0",
    "   tries mrs x3, s3_0_c2_c1_0",
    "   tries rdvl x3, #1",
    "   tries pacga x3, x20, x20",
    // OSDTRRX_EL1, an undefined register, and MDCCINT_EL1.
    "   tries mrs x3, s2_0_c0_c0_2",
    "   tries mrs x3, s2_0_c15_c0_0",
    "   tries mrs x3, s2_0_c0_c2_0",
    "   b .",
    ".balign 0x400",
    "   mov x0, #15",
    "   msr s3_0_c1_c2_0, x0",
    "   isb",
    "   rdvl x0, #1",
    "   str x0, [x20, #32]",
    "   mov x0, #1",
    "   msr s3_0_c1_c2_0, x0",
    "   isb",
    "   rdvl x0, #1",
    "   str x0, [x20, #32]",
    "   mov x0, #15",
    "   msr s3_0_c1_c2_0, x0",
    "   isb",
    "   add z1.d, z0.d, z0.d",
    "   mov p1.b, p0.b",
    "   rdffr p2.b",
    "   str x0, [x20, #40]",
    "   add z2.d, z1.d, z0.d",
    // Signs an address, and checks it; signs with the VMM's key and with one of its own.
    "   mrs x0, sctlr_el1",
    "   orr x0, x0, #0x80000000",
    "   msr sctlr_el1, x0",
    "   isb",
    "   mov x1, #0x40000000",
    "   mov x2, #0x1234",
    "   pacia x1, x2",
    "   str x1, [x20, #48]",
    "   autia x1, x2",
    "   str x1, [x20, #48]",
    "   pacga x3, x1, x2",
    "   str x3, [x20, #56]",
    "   mov x0, #0x5555",
    "   msr s3_0_c2_c3_0, x0",
    "   isb",
    "   pacga x3, x1, x2",
    "   str x3, [x20, #56]",
    "   b .",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x0, esr_el1",
    "   str x0, [x20, #8]",
    "   mrs x0, elr_el1",
    "   add x0, x0, #4",
    "   msr elr_el1, x0",
    "   eret",
    ".endr",
    "vectors_end:",
    ".arch_extension nopauth",
    ".arch_extension nosve",
    ".popsection",
);
