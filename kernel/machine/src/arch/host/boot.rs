//! The machine is switched on.

extern crate alloc;

use dtoolkit::fdt::Fdt;

use super::baton::NoUnwind;
use super::cpu::{self, BOOT};
use super::{memory, mmu, program, time};
use crate::{fdt, mm, params, random, upcall};

/// What a machine has.
pub struct Machine {
    /// Bytes of memory: a multiple of 2 MiB.
    pub memory: usize,
    /// The initial archive.
    pub archive: &'static [u8],
    /// The kernel's parameters.
    pub command_line: &'static str,
    /// What programs do: called with the address where one begins, or where a signal's handler
    /// does. It runs on the thread's own host thread and makes [`program::call`]s.
    pub program: fn(usize),
}

/// A device tree that says nothing (Devicetree Specification, chapter 5): a header, an empty map
/// of reserved memory, a root without properties.
#[repr(align(8))]
struct Tree([u8; 72]);

static TREE: Tree = Tree(tree());

const fn tree() -> [u8; 72] {
    const WORDS: [u32; 18] = [
        0xd00d_feed, // magic
        72,          // all of it
        56,          // the structure
        72,          // the strings: none
        40,          // reserved memory
        17,          // version
        16,          // the oldest version that is alike
        0,           // the boot CPU
        0,           // bytes of strings
        16,          // bytes of the structure
        0,           // no reserved memory
        0,
        0,
        0,
        1, // a node
        0, // without a name
        2, // its end
        9, // the end
    ];
    let mut bytes = [0; 72];
    let mut at = 0;
    while at < 72 {
        bytes[at] = WORDS[at / 4].to_be_bytes()[at % 4];
        at += 1;
    }
    bytes
}

/// Starts the machine, which goes on beside the caller. Once in a process.
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
    // SAFETY: the end of the memory that was just borrowed, and bytes that do not change.
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
    // SAFETY: once in a process; of the memory that was just borrowed, only what is kept is in use.
    let archive = unsafe { mm::init(core::slice::from_ref(&ram), &kept, archive) };
    random::seed(b"the same in every run");
    cpu::publish(&BOOT);
    upcall::start_kernel(archive)
}
