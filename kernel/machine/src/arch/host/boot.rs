//! Power on.

extern crate alloc;

use dtoolkit::fdt::Fdt;

use super::baton::NoUnwind;
use super::cpu::{self, BOOT};
use super::{memory, mmu, program, time};
use crate::{fdt, mm, params, random, upcall};

/// The configuration of a machine.
pub struct Machine {
    /// Size of memory in bytes: a multiple of 2 MiB.
    pub memory: usize,
    /// The initial archive.
    pub archive: &'static [u8],
    /// The kernel's command line.
    pub command_line: &'static str,
    /// The code of programs: called with the start address of a program or of a signal handler. It
    /// runs on the thread's own host thread and makes [`program::call`]s.
    pub program: fn(usize),
}

/// An empty device tree (Devicetree Specification, chapter 5): a header, an empty memory
/// reservation block, and a root without properties.
#[repr(align(8))]
struct Tree([u8; 72]);

static TREE: Tree = Tree(tree());

const fn tree() -> [u8; 72] {
    const WORDS: [u32; 18] = [
        0xd00d_feed, // magic
        72,          // total size
        56,          // offset of the structure block
        72,          // offset of the strings block, which is empty
        40,          // offset of the memory reservation block
        17,          // version
        16,          // last compatible version
        0,           // the boot CPU
        0,           // size of the strings block
        16,          // size of the structure block
        0,           // end of the memory reservation block
        0,
        0,
        0,
        1, // FDT_BEGIN_NODE
        0, // an empty name
        2, // FDT_END_NODE
        9, // FDT_END
    ];
    let mut bytes = [0; 72];
    let mut at = 0;
    while at < 72 {
        bytes[at] = WORDS[at / 4].to_be_bytes()[at % 4];
        at += 1;
    }
    bytes
}

/// Starts the machine, which runs concurrently with the caller. Once in a process.
pub fn start(machine: Machine) {
    let begin = move || {
        let _no_unwind = NoUnwind;
        run(machine)
    };
    super::thread::host_thread(begin);
}

fn run(machine: Machine) {
    program::set(machine.program);
    let ram = memory::init(machine.memory);
    let len = machine.archive.len();
    let archive = mm::page_down(ram.end - len)..mm::page_down(ram.end - len) + len;
    // SAFETY: the end of the memory that was just allocated, and bytes that do not change.
    unsafe {
        let to = memory::phys_to_virt(archive.start) as *mut u8;
        core::ptr::copy_nonoverlapping(machine.archive.as_ptr(), to, len);
        BOOT.init_above();
    }
    mmu::init();
    fdt::set(Fdt::new(&TREE.0).expect("a device tree"));
    params::set(machine.command_line);
    time::init(1_000_000_000);
    let kept = [memory::ROOT, archive.clone()];
    // SAFETY: once in a process; of the memory that was just allocated, only the ranges in `kept`
    // are in use.
    let archive = unsafe { mm::init(core::slice::from_ref(&ram), &kept, archive) };
    random::seed(b"the same in every run");
    cpu::publish(&BOOT);
    upcall::start_kernel(archive)
}
