//! Secondary harts: starting them, and sending them requests.

extern crate alloc;

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{self, AtomicUsize};

use alloc::boxed::Box;
use crossings::Kind;
use dtoolkit::fdt::Fdt;
use sbi_rt::{HartMask, SbiRet};

use super::cpu::{self, Cpu};
use super::frame::StackTop;
use super::{MAX_CPUS, entry, features, fence, irq, mmu, status, time, tlb};
use crate::arch::cpus;
use crate::mm::vmalloc::KernelStack;
use crate::upcall;

/// Number of harts that a call to the firmware can address at once.
const HARTS_PER_CALL: usize = usize::BITS as usize;
/// This hart's software interrupt in `sip`.
const SOFTWARE_PENDING: usize = 1 << 1;

/// Calls `send` for the CPUs that `choose` passes on, in groups as the firmware requires, and
/// counts `kind` if there are any.
pub(super) fn each(
    kind: Kind,
    send: impl Fn(HartMask) -> SbiRet,
    choose: impl FnOnce(&mut dyn FnMut(usize)),
) {
    let mut group = HartMask::from_mask_base(0, 0);
    choose(&mut |index| {
        let Some(hart) = cpu::get(index).map(Cpu::hart) else {
            return;
        };
        if group.insert(hart).is_err() {
            deliver(group, &send);
            let bit = hart % HARTS_PER_CALL;
            group = HartMask::from_mask_base(1 << bit, hart - bit);
        }
    });
    // The last group; if it is empty, there were none before.
    if !is_empty(group) {
        deliver(group, &send);
        cpu::this().crossings().add(kind);
    }
}

/// As [`each`], for all online CPUs except this one.
pub(super) fn each_other(kind: Kind, send: impl Fn(HartMask) -> SbiRet) {
    let own = cpu::this().index();
    let others = (0..cpu::possible()).filter(|&index| index != own);
    each(kind, send, |notify| others.for_each(notify));
}

fn is_empty(group: HartMask) -> bool {
    group.into_inner().0 == 0
}

fn deliver(group: HartMask, send: impl Fn(HartMask) -> SbiRet) {
    if !is_empty(group) {
        // Stores of this hart, to PTEs and instructions, must be visible before the others fence.
        atomic::fence(SeqCst);
        let sent = send(group);
        assert!(
            sent.is_ok(),
            "the firmware reaches every hart that is online: {sent:?}"
        );
    }
}

/// Sends an IPI to CPU `index`, which then calls `task::sched::ipi`.
pub fn kick(index: usize) {
    if let Some(cpu) = cpu::get(index) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, cpu.hart()));
    }
}

/// Clears the pending software interrupt.
pub(super) fn acknowledge() {
    // SAFETY: clears a pending bit.
    unsafe { asm!("csrc sip, {}", in(reg) SOFTWARE_PENDING, options(nostack, preserves_flags)) };
}

static READY: AtomicUsize = AtomicUsize::new(0);

/// Starts all other harts of the device tree, and waits until they are up.
pub(super) fn bring_up(tree: Fdt) {
    let boot = cpu::this().hart();
    let mut started = 0;
    for hart in features::harts(tree)
        .filter_map(features::hart_number)
        .filter(|&hart| hart != boot)
    {
        if started + 1 == MAX_CPUS {
            crate::log!("hart {hart} and those after it stay off: {MAX_CPUS} is the limit");
            break;
        }
        let answer = start(started + 1, hart);
        if answer.is_ok() {
            started += 1;
        } else {
            crate::log!("hart {hart} does not start: {answer:?}");
        }
    }
    let deadline = time::now_ticks() + time::ns_to_ticks(cpus::PATIENCE_NS);
    while READY.load(Acquire) < started && time::now_ticks() < deadline {
        core::hint::spin_loop();
    }
}

fn start(index: usize, hart: usize) -> SbiRet {
    let (Ok(stack), Ok(overflow)) = (KernelStack::new(), KernelStack::new()) else {
        return SbiRet::failed();
    };
    let cpu: &'static Cpu = Box::leak(Box::new(Cpu::new(index)));
    // SAFETY: nobody else can access it yet.
    unsafe { cpu.init_above() };
    cpu.start_stack.set(stack.top());
    cpu.overflow_stack.set(overflow.top());
    cpu.hart.store(hart, Relaxed);
    fence::init_cpu(cpu);
    cpu::expect(index);
    let entry = mmu::virt_to_phys(first as *const () as usize);
    let answer = sbi_rt::hart_start(hart, entry, &raw const *cpu as usize);
    if answer.is_ok() {
        // The hart uses them forever.
        core::mem::forget((stack, overflow));
    }
    answer
}

/// The first Rust code on a secondary hart.
extern "C" fn other_hart() -> ! {
    status::init();
    let whole = features::start_cpu();
    READY.fetch_add(1, AcqRel);
    if !whole {
        super::halt();
    }
    while !cpus::are_released() {
        core::hint::spin_loop();
    }
    // Code may have been patched meanwhile.
    tlb::local_fence_i();
    irq::start_cpu();
    upcall::start_cpu();
    cpu::publish(cpu::this());
    upcall::idle()
}

/// Lets the secondary CPUs run threads.
pub fn start_others() {
    cpus::release();
}

/// First instructions of a secondary hart, with its `Cpu` in a1, and translation off.
#[unsafe(naked)]
unsafe extern "C" fn first() {
    naked_asm!(
        "csrw sie, zero",
        // Turn translation on as the boot path does, with the known mode.
        "lla t0, 1f",
        "lla t1, _start",
        "sub t0, t0, t1",
        "li t1, {image}",
        "add t0, t0, t1",
        "csrw stvec, t0",
        "lla t0, {satp}",
        "ld t0, (t0)",
        "sfence.vma",
        "csrw satp, t0",
        ".balign 4",
        "1: la t0, {trap}",
        "csrw stvec, t0",
        "csrw sscratch, zero",
        "mv tp, a1",
        "ld sp, {stack}(tp)",
        "addi sp, sp, -{stack_top}",
        "mv s0, zero",
        "tail {main}",
        image = const mmu::layout::IMAGE,
        satp = sym mmu::KERNEL_SATP,
        trap = sym entry::trap,
        stack = const offset_of!(Cpu, start_stack),
        stack_top = const size_of::<StackTop>(),
        main = sym other_hart,
    )
}
