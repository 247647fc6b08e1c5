//! From the loader's jump to Rust: the image header, the first page tables, and turning translation
//! on.
//!
//! The loader enters at the first byte of the image, in S-mode with translation off, with the hart
//! ID in a0 and the device tree's physical address in a1 (Linux,
//! Documentation/arch/riscv/boot.rst). The image may lie at any multiple of 2 MiB. Other harts wait
//! in the firmware until `smp` starts them.

use core::arch::global_asm;

use super::entry;
use super::frame::StackTop;
use super::mmu::{self, layout};
use crate::arch::boot_stack::{BOOT_STACKS, BootStack};

/// Number of 2 MiB blocks of the image that the first page table can map, one for each of its
/// entries.
const BOOT_IMAGE_BLOCKS: usize = 512;

global_asm!(
    // The header for Linux's loaders (Documentation/arch/riscv/boot-image-header.rst).
    ".pushsection .head.text, \"ax\"",
    ".global _start",
    "_start:",
    ".option push",
    ".option norvc",
    "   j {start}",
    ".option pop",
    "   .word 0",
    "   .dword {text_offset}",
    "   .dword __image_end - _start",
    "   .dword 0",          // flags: little-endian
    "   .word 2",           // header version 0.2
    "   .word 0",
    "   .dword 0",
    "   .ascii \"RISCV\\0\\0\\0\"",
    "   .ascii \"RSC\\x05\"",
    "   .word 0",
    ".popsection",
    start = sym start,
    text_offset = const mmu::PMD_SIZE,
);

/// The boot hart's first instructions.
#[unsafe(naked)]
unsafe extern "C" fn start() {
    core::arch::naked_asm!(
        "csrw sie, zero",
        "csrw sip, zero",
        "mv s0, a0",
        "mv s1, a1",
        "lla s2, _start",
        // Zero .bss.
        "lla t0, __bss_start",
        "lla t1, __bss_end",
        "1: sd zero, (t0)",
        "   addi t0, t0, 8",
        "   bltu t0, t1, 1b",
        // The image, in blocks of 2 MiB, with all permissions for now.
        "lla t0, {image_table}",
        "srli t1, s2, {page_shift}",
        "slli t1, t1, {ppn_shift}",
        "ori t1, t1, {boot_rights}",
        "li t2, {blocks}",
        "li t3, {pmd_step}",
        "2: sd t1, (t0)",
        "   add t1, t1, t3",
        "   addi t0, t0, 8",
        "   addi t2, t2, -1",
        "   bnez t2, 2b",
        // The linear map, in blocks of 1 GiB.
        "lla s3, {root39}",
        "li t0, {linear_first}",
        "add t0, s3, t0",
        "li t1, {boot_rights}",
        "li t2, {linear_blocks}",
        "li t3, {pud_step}",
        "3: sd t1, (t0)",
        "   add t1, t1, t3",
        "   addi t0, t0, 8",
        "   addi t2, t2, -1",
        "   bnez t2, 3b",
        // Link the image's table into sv39's root, that into sv48's, and that into sv57's.
        "lla t0, {image_table}",
        "li t1, {image_slot}",
        "add t1, s3, t1",
        "srli t0, t0, {page_shift}",
        "slli t0, t0, {ppn_shift}",
        "ori t0, t0, {table}",
        "sd t0, (t1)",
        "lla s4, {root48}",
        "li t1, {top_slot}",
        "srli t0, s3, {page_shift}",
        "slli t0, t0, {ppn_shift}",
        "ori t0, t0, {table}",
        "add t2, s4, t1",
        "sd t0, (t2)",
        "lla s5, {root57}",
        "srli t0, s4, {page_shift}",
        "slli t0, t0, {ppn_shift}",
        "ori t0, t0, {table}",
        "add t2, s5, t1",
        "sd t0, (t2)",
        // Selects the largest mode that the hart supports. Writing an unsupported mode leaves satp
        // unchanged (privileged manual, section 12.1.11); a supported one makes the fetch of the
        // next instruction fault, which continues at the image's link address.
        "lla t0, 4f",
        "sub t0, t0, s2",
        "li t1, {base}",
        "add t0, t0, t1",
        "csrw stvec, t0",
        "sfence.vma",
        "li t1, {sv57}",
        "srli t0, s5, {page_shift}",
        "or t0, t0, t1",
        "csrw satp, t0",
        "li t1, {sv48}",
        "srli t0, s4, {page_shift}",
        "or t0, t0, t1",
        "csrw satp, t0",
        "li t1, {sv39}",
        "srli t0, s3, {page_shift}",
        "or t0, t0, t1",
        "csrw satp, t0",
        "5: wfi",
        "   j 5b",
        ".balign 4",
        "4:",
        "la t0, {trap}",
        "csrw stvec, t0",
        "csrw sscratch, zero",
        "la tp, {cpu}",
        "la sp, {stack} + {stack_size} - {stack_top}",
        "mv a0, s0",
        "mv a1, s1",
        "mv a2, s2",
        "mv s0, zero",
        "tail {main}",
        image_table = sym mmu::IMAGE_TABLE,
        root39 = sym mmu::ROOT_SV39,
        root48 = sym mmu::ROOT_SV48,
        root57 = sym mmu::ROOT_SV57,
        page_shift = const mmu::PAGE_SHIFT,
        ppn_shift = const mmu::PPN_SHIFT,
        boot_rights = const mmu::BOOT_RIGHTS,
        table = const mmu::TABLE,
        blocks = const BOOT_IMAGE_BLOCKS,
        pmd_step = const mmu::PMD_SIZE >> mmu::PAGE_SHIFT << mmu::PPN_SHIFT,
        pud_step = const mmu::PUD_SIZE >> mmu::PAGE_SHIFT << mmu::PPN_SHIFT,
        linear_first = const mmu::root39_slot(layout::LINEAR),
        linear_blocks = const layout::LINEAR_SIZE / mmu::PUD_SIZE,
        image_slot = const mmu::root39_slot(layout::IMAGE),
        top_slot = const mmu::TOP_SLOT,
        base = const layout::IMAGE,
        sv39 = const mmu::Mode::Sv39.satp(),
        sv48 = const mmu::Mode::Sv48.satp(),
        sv57 = const mmu::Mode::Sv57.satp(),
        trap = sym entry::trap,
        cpu = sym super::cpu::BOOT,
        stack = sym BOOT_STACKS,
        stack_size = const size_of::<BootStack>(),
        stack_top = const size_of::<StackTop>(),
        main = sym super::start::boot_hart,
    )
}
