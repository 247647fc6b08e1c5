//! The functions of the kernel that crate `machine` calls.

use crate::arch::cpu::{self, Cpu};
use crate::arch::irq::Interrupted;
use crate::arch::task::Current;
use crate::arch::task::Previous;
use crate::arch::{self, SyscallTable};
use crate::errno::Result;
use crate::fs::{aio, kmsg};
use crate::mm::fault::{Access, Signal};
use crate::mm::{AddressSpace, Archive};
use crate::task::{self, CpuParts, PerCpu, Thread, process::Mode, sched};
use machine::upcall::{Functions, Kernel};

struct Stile;

impl Kernel for Stile {
    type Thread = Thread;
    type Cpu = PerCpu;
    const CPU: PerCpu = PerCpu::new();
    const SYSCALLS: SyscallTable = crate::syscall::TABLE;
}

impl Functions for Stile {
    fn start_kernel(archive: Option<Archive>) -> ! {
        crate::start::main(archive)
    }

    fn start_cpu() {
        task::start_cpu();
    }

    fn idle() -> ! {
        sched::idle()
    }

    fn switched(previous: Previous) {
        sched::switched(previous.into_thread());
    }

    fn exit_work() {
        task::exit_work();
    }

    fn page_fault(address: usize, access: Access) -> core::result::Result<(), Signal> {
        task::fault::handle_user_fault(address, access)
    }

    fn force_signal(number: u32, code: u32, address: usize) {
        task::signal::force(number, code, address);
    }

    fn ipi() {
        kmsg::interrupt();
        sched::ipi();
    }

    fn runs_program(cpu: &Cpu) -> bool {
        cpu.sched().active_space() != 0
    }

    fn timer_interrupt(from: Interrupted) {
        task::timer::interrupt(from);
    }

    fn syscalls_changed() {
        task::current().watch_calls();
    }

    fn cond_resched() {
        sched::cond_resched();
    }

    fn cond_resched_killable() -> Result<()> {
        sched::cond_resched_killable()
    }

    fn must_die() -> bool {
        task::current().must_die()
    }

    fn wait_for_space(space: &AddressSpace, ready: &dyn Fn() -> bool) -> Result<()> {
        task::memory_wait::wait(space, ready)
    }

    fn space_changed(space: &AddressSpace) {
        task::memory_wait::wake(space);
    }

    fn capable(capability: u32) -> bool {
        task::can(capability)
    }

    fn tags_addresses() -> bool {
        task::current().tags_addresses()
    }

    fn rlimit(kind: u32) -> usize {
        task::rlimit(kind)
    }

    fn exit_aio(space: &AddressSpace) {
        aio::exit(space);
    }

    fn may_have_huge_pages() -> bool {
        !task::current().process().mode(Mode::NO_HUGE_PAGES)
    }

    fn logged() {
        kmsg::logged();
    }

    fn describe_current() -> Option<([u8; 16], i32)> {
        let thread: Current<Thread> = arch::try_current()?;
        Some((thread.try_name().unwrap_or_default(), thread.tid()))
    }

    fn program_registers() -> Option<[usize; 2]> {
        let thread: Current<Thread> = arch::try_current()?;
        let runs_program = thread.tid() != 0 && cpu::this().sched().active_space() != 0;
        runs_program.then(|| {
            let frame = thread.arch.saved_frame();
            [frame.pc(), frame.sp()]
        })
    }
}

machine::task!(Thread, arch);
machine::kernel!(Stile);
