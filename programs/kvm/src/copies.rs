//! A guest that copies and sets memory (FEAT_MOPS), also if it reaches the second or third
//! instruction with the state that the first leaves on another kind of CPU.

use std::arch::global_asm;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::host::{DEVICE, MEMORY, PC, machine, number, reset, set};

const CORE: u64 = 0x6030_0000_0010_0000;
/// The source and the destination of the copy, and its length.
const FROM: usize = 0x4000;
const TO: usize = 0x6000;
const SIZE: usize = 0x1000;
/// The addresses of the two instruction sequences.
const COPY: u64 = MEMORY + 20;
const SET: u64 = MEMORY + 40;
/// C and N of NZCV: option B; with N the copy goes backward.
const FORWARD_B: u64 = 1 << 29;
const BACKWARD_B: u64 = 1 << 29 | 1 << 31;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let (vm, base) = machine(kvm, code!(copies_start, copies_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    reset(&vm, &vcpu);
    // SAFETY: the guest has this much memory, and does not run.
    let (from, to) = unsafe {
        let part = |at| std::slice::from_raw_parts_mut(base.add(at), SIZE);
        (part(FROM), part(TO))
    };
    from.iter_mut()
        .enumerate()
        .for_each(|(at, byte)| *byte = (at * 7 % 251) as u8);
    for (row, place, flags) in [
        (COPY, 0, 0),
        (COPY, 1, FORWARD_B),
        (COPY, 2, FORWARD_B),
        (COPY, 1, BACKWARD_B),
        (COPY, 2, BACKWARD_B),
        (SET, 0, 0),
        (SET, 1, FORWARD_B),
        (SET, 2, FORWARD_B),
    ] {
        to.fill(0);
        let behind = if flags == BACKWARD_B { SIZE as u64 } else { 0 };
        let source = if row == SET {
            0x5a
        } else {
            MEMORY + FROM as u64 + behind
        };
        let target = MEMORY + TO as u64 + behind;
        let entry = row + 4 * place;
        let registers = [target, source, SIZE as u64, flags, entry, DEVICE];
        for (register, value) in (0..).zip(registers) {
            set(&vcpu, CORE + 2 * register, value).expect("a register");
        }
        set(&vcpu, PC, MEMORY).expect("pc");
        run(&mut vcpu);
        let whole = match row {
            SET => to.iter().all(|byte| *byte == 0x5a),
            _ => to == from,
        };
        println!(
            "{} from {place}, flags {flags:#x}: {whole}",
            if row == SET { "set" } else { "copy" }
        );
    }
}

fn run(vcpu: &mut VcpuFd) {
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(address, data)) => {
            println!("writes at {:#x}: {:#x}", address - DEVICE, number(data));
        }
        other => println!("{other:?}"),
    }
    // Completes the write.
    vcpu.set_kvm_immediate_exit(1);
    assert!(vcpu.run().is_err());
    vcpu.set_kvm_immediate_exit(0);
}

global_asm!(
    ".pushsection .rodata.copies, \"a\"",
    ".balign 2048",
    ".arch_extension mops",
    ".global copies_start, copies_end",
    "copies_start:",
    "   adr x6, 9f",
    "   msr vbar_el1, x6",
    "   isb",
    "   msr nzcv, x3",
    "   br x4",
    "   cpyp [x0]!, [x1]!, x2!",
    "   cpym [x0]!, [x1]!, x2!",
    "   cpye [x0]!, [x1]!, x2!",
    "   str x2, [x5]",
    "   b .",
    "   setp [x0]!, x2!, x1",
    "   setm [x0]!, x2!, x1",
    "   sete [x0]!, x2!, x1",
    "   str x2, [x5]",
    "   b .",
    ".balign 2048",
    "9:",
    ".rept 16",
    "   .balign 128",
    "   mrs x6, esr_el1",
    "   str x6, [x5, #8]",
    "   b .",
    ".endr",
    "copies_end:",
    ".arch_extension nomops",
    ".popsection",
);
