//! A guest waits for its timer after the VMM has set its counter.

use std::arch::global_asm;
use std::time::Duration;

use kvm_ioctls::{Kvm, VcpuExit};

use crate::code;
use crate::host::{self, X0, machine, set, system};

/// KVM_REG_ARM_TIMER_CNT.
const COUNTER: u64 = system(3, 3, 14, 3, 2);
/// The length of the guest's wait, in ticks.
const WAIT: u64 = 1 << 20;
/// The time in seconds after which a wait has failed.
const LATE: u32 = 60;

/// Prints which waits end, and by which interrupt.
pub fn tell(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(timers_start, timers_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let _controller = host::controller(&vm, 1);
    host::reset(&vm, &vcpu);
    // Behind the host's counter, ahead of it, and just before the counter's end.
    for counter in [0, 1 << 40, 1 << 63, u64::MAX - (1 << 40)] {
        set(&vcpu, COUNTER, counter).expect("a counter");
        set(&vcpu, X0 | 20, WAIT).expect("x10");
        host::strike(Duration::ZERO);
        // SAFETY: the handler is installed above.
        unsafe { libc::alarm(LATE) };
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(_, data)) => {
                println!("{counter:#x}: interrupt {}", host::number(data));
            }
            other => println!("{counter:#x}: {other:?}"),
        }
    }
    // SAFETY: cancels the alarm.
    unsafe { libc::alarm(0) };
}

// Waits for x10 ticks of the virtual counter, and writes the number of the interrupt that ended it.
global_asm!(
    ".pushsection .rodata.timers, \"a\"",
    ".global timers_start, timers_end",
    "timers_start:",
    "   ldr x20, =0x0b000000",
    "   ldr x21, =0x08000000",
    "   ldr x22, =0x0a010000",
    "   mov w0, #0x12",
    "   str w0, [x21]",
    "   mov w0, #0x08000000",
    "   str w0, [x22, #0x100]",
    interface_on!(),
    "1: isb",
    "   mrs x1, cntvct_el0",
    "   add x1, x1, x10",
    "   msr cntv_cval_el0, x1",
    "   mov x0, #1",
    "   msr cntv_ctl_el0, x0",
    "   isb",
    "2: wfi",
    "   mrs x0, isr_el1",
    "   cbz x0, 2b",
    "   mrs x0, s3_0_c12_c12_0",
    "   msr cntv_ctl_el0, xzr",
    "   isb",
    "   msr s3_0_c12_c12_1, x0",
    "   str x0, [x20]",
    "   b 1b",
    ".ltorg",
    "timers_end:",
    ".popsection",
);
