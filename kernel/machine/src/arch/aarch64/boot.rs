//! From the loader's jump to Rust: the image header, the exception level, the first tables, and
//! turning the MMU on.
//!
//! The loader enters at the first byte of the image with the MMU off, at EL2 or EL1, with the
//! device tree's physical address in x0 (Linux, Documentation/arch/arm64/booting.rst). The image
//! may lie at any multiple of 2 MiB. Until the MMU is on, code here uses only PC-relative addresses
//! and no stack.
//!
//! At EL2 a CPU with VHE stays there as a host (HCR_EL2.{E2H, TGE}): the EL1 register names then
//! access the EL2 registers. Without VHE it drops to EL1.

use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;

use super::cpu::{self, Cpu};
use super::frame::StackTop;
use super::mmu::{self, bit, layout};
use super::{memory_map, smp};
use crate::arch::boot_stack::{BOOT_STACKS, BootStack};

/// HCR_EL2 of a host: EL1 is AArch64, the host's programs run at EL0, pointer authentication does
/// not trap.
const HCR_HOST: u64 = 1 << 31 | 1 << 34 | 1 << 27 | HCR_NO_POINTER_TRAPS;
/// HCR_EL2 for a kernel at EL1, which may access allocation tags (ATA), if they are implemented.
const HCR_GUEST: u64 = 1 << 31 | 1 << 56 | HCR_NO_POINTER_TRAPS;
const HCR_NO_POINTER_TRAPS: u64 = 1 << 40 | 1 << 41;

/// SCTLR_EL1 bits that are RES1 unless the CPU implements their feature: EOS, TSCXT, EIS, SPAN,
/// nTLSMD, LSMAOE.
const SCTLR_RES1: u64 = 1 << 11 | 1 << 20 | 1 << 22 | 1 << 23 | 1 << 28 | 1 << 29;
/// SCTLR_EL1 with the MMU and caches off.
const SCTLR_OFF: u64 = SCTLR_RES1;
/// SCTLR_EL1 with the MMU, caches and stack alignment checks on, and EL0 access to CP15 barriers,
/// DC ZVA, CTR_EL0, WFE and cache maintenance.
const SCTLR_ON: u64 = SCTLR_RES1
    | 1 << 0
    | 1 << 2
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 12
    | 1 << 14
    | 1 << 15
    | 1 << 18
    | 1 << 26;

/// TCR_EL1: 48 bits and 4 KiB pages in both halves, table walks inner-shareable and write-back
/// cacheable, top byte ignore for programs. The physical address size and 16-bit ASIDs are added
/// from the ID registers.
const TCR: u64 =
    16 | 1 << 8 | 1 << 10 | 3 << 12 | 16 << 16 | 1 << 24 | 1 << 26 | 3 << 28 | 2 << 30 | 1 << 37;

/// Attributes of blocks in the first tables.
const BLOCK: u64 = bit::VALID
    | bit::ACCESS
    | bit::INNER_SHAREABLE
    | (mmu::Memory::Normal as u64) << bit::ATTR_SHIFT;
/// The block of the code that turns the MMU on, at its physical address.
const IDENTITY_BLOCK: u64 = BLOCK | bit::READ_ONLY | bit::USER_NEVER;
/// Blocks of the image, with all kernel permissions until [`memory_map`] sets the final ones.
const IMAGE_BLOCK: u64 = BLOCK | bit::USER_NEVER;

/// The first tables: identity map (3 levels), image (3 levels).
#[unsafe(link_section = ".boot_tables")]
pub(super) static TABLES: [mmu::Table; 6] = [const { mmu::Table::new() }; 6];
/// The index of the table with the image's blocks.
pub(super) const IMAGE_TABLE: usize = 5;

global_asm!(
    // The image header (booting.rst, "4. Call the kernel image"): 4 KiB pages, little-endian,
    // anywhere in memory.
    ".pushsection .head.text, \"ax\"",
    ".global _start",
    "_start:",
    "   b {start}",
    "   .long 0",
    "   .quad 0",
    "   .quad __image_end - _start",
    "   .quad 0b1010",
    "   .quad 0, 0, 0",
    "   .ascii \"ARM\\x64\"",
    "   .long 0",
    ".popsection",
    start = sym start,
);

/// The boot CPU's first instructions.
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
unsafe extern "C" fn start() {
    naked_asm!(
        "mov x21, x0",
        "bl {enter_kernel_level}",
        "adrp x22, _start",
        "adrp x23, {tables}",
        // With caches off the tables are written directly to memory, so no cache may hold a line of
        // them: neither a dirty one that is written back later, nor one that a table walk would
        // hit.
        "mov x0, x23",
        "bl {discard_tables}",
        "mov x1, x23",
        "add x2, x23, {tables_size}",
        "1: stp xzr, xzr, [x1], #16",
        "cmp x1, x2",
        "b.lo 1b",
        // Identity map: a single block, the first of the image.
        "add x1, x23, {page}",
        "orr x2, x1, {table}",
        "ubfx x3, x22, #39, #9",
        "str x2, [x23, x3, lsl #3]",
        "add x4, x1, {page}",
        "orr x2, x4, {table}",
        "ubfx x3, x22, #30, #9",
        "str x2, [x1, x3, lsl #3]",
        "ldr x2, ={identity_block}",
        "orr x2, x2, x22",
        "ubfx x3, x22, #21, #9",
        "str x2, [x4, x3, lsl #3]",
        // The image, at its link address.
        "add x1, x4, {page}",
        "add x4, x1, {page}",
        "orr x2, x4, {table}",
        "str x2, [x1, {root_slot}]",
        "add x1, x4, {page}",
        "orr x2, x1, {table}",
        "str x2, [x4, {image_slot}]",
        "ldr x2, ={image_block}",
        "orr x2, x2, x22",
        "adrp x3, __image_end",
        "sub x3, x3, x22",
        "2: str x2, [x1], #8",
        "add x2, x2, {pmd_size}",
        "subs x3, x3, {pmd_size}",
        "b.hi 2b",
        "mov x0, x23",
        "bl {discard_tables}",
        "add x0, x23, {page} * 3",
        "ldr x1, ={image_start}",
        "b {translate}",
        enter_kernel_level = sym enter_kernel_level,
        discard_tables = sym discard_tables,
        translate = sym translate,
        image_start = sym image_start,
        tables = sym TABLES,
        tables_size = const size_of_val(&TABLES),
        page = const super::PAGE_SIZE,
        table = const bit::TABLE | bit::VALID,
        identity_block = const IDENTITY_BLOCK,
        image_block = const IMAGE_BLOCK,
        pmd_size = const mmu::PMD_SIZE,
        root_slot = const (layout::IMAGE >> 39) % mmu::ENTRIES * 8,
        image_slot = const (layout::IMAGE >> 30) % mmu::ENTRIES * 8,
    )
}

/// Invalidates all cache lines of the tables at x0.
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
unsafe extern "C" fn discard_tables() {
    naked_asm!(
        "dmb sy",
        "mrs x3, ctr_el0",
        "ubfx x3, x3, #16, #4",
        "mov x2, #4",
        "lsl x2, x2, x3",
        "add x1, x0, {size}",
        "1: dc ivac, x0",
        "add x0, x0, x2",
        "cmp x0, x1",
        "b.lo 1b",
        "dsb sy",
        "ret",
        size = const size_of_val(&TABLES),
    )
}

/// Enters the exception level at which the kernel runs, with the MMU off and without traps for
/// anything that the kernel or programs use. Preserves x20 and above.
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
unsafe extern "C" fn enter_kernel_level() {
    naked_asm!(
        "msr daifset, #15",
        "mrs x0, CurrentEL",
        "cmp x0, #(2 << 2)",
        "b.eq 1f",
        "ldr x0, ={sctlr_off}",
        "msr sctlr_el1, x0",
        "isb",
        "ret",
        // At EL2. Settings for both kinds of kernel:
        "1: msr cntvoff_el2, xzr",
        "msr vttbr_el2, xzr",
        "mrs x0, midr_el1",
        "msr vpidr_el2, x0",
        "mrs x0, mpidr_el1",
        "msr vmpidr_el2, x0",
        // All counters belong to EL1 and EL0 (MDCR_EL2.HPMN); debug exceptions are not routed to
        // EL2.
        "mrs x0, id_aa64dfr0_el1",
        "ubfx x0, x0, #8, #4",
        "mov x1, xzr",
        "cbz x0, 2f",
        "cmp x0, #15",
        "b.eq 2f",
        "mrs x1, pmcr_el0",
        "ubfx x1, x1, #11, #5",
        "2: msr mdcr_el2, x1",
        // Enable system register access to the GIC CPU interface (ICC_SRE_EL2.{SRE, Enable}).
        "mrs x0, id_aa64pfr0_el1",
        "ubfx x0, x0, #24, #4",
        "cbz x0, 3f",
        "mrs x0, S3_4_C12_C9_5",
        "mov x1, #9",
        "orr x0, x0, x1",
        "msr S3_4_C12_C9_5, x0",
        "isb",
        "msr S3_4_C12_C11_0, xzr",
        "3: mrs x0, id_aa64mmfr1_el1",
        "ubfx x0, x0, #8, #4",
        "cbz x0, 4f",
        "ldr x0, ={hcr_host}",
        "msr hcr_el2, x0",
        "isb",
        "ldr x0, ={sctlr_off}",
        "msr sctlr_el1, x0",
        "isb",
        "ret",
        // Drop to EL1.
        "4: ldr x0, ={hcr_guest}",
        "msr hcr_el2, x0",
        "mov x0, #0x33ff",
        "msr cptr_el2, x0",
        "msr hstr_el2, xzr",
        "mov x0, #3",
        "msr cnthctl_el2, x0",
        "ldr x0, ={sctlr_off}",
        "msr sctlr_el1, x0",
        "mov x0, #0x3c5",
        "msr spsr_el2, x0",
        "msr elr_el2, x30",
        "eret",
        sctlr_off = const SCTLR_OFF,
        hcr_host = const HCR_HOST,
        hcr_guest = const HCR_GUEST,
    )
}

/// Turns the MMU on with the identity map and the kernel's root at x0, and branches to x1.
/// Preserves x20 and above.
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
unsafe extern "C" fn translate() {
    naked_asm!(
        "ldr x2, ={mair}",
        "msr mair_el1, x2",
        "ldr x2, ={tcr}",
        // IPS: the CPU's physical address size, at most 48 bits. AS: 16 bits if implemented.
        "mrs x3, id_aa64mmfr0_el1",
        "and x4, x3, #15",
        "mov x5, #5",
        "cmp x4, x5",
        "csel x4, x4, x5, lo",
        "orr x2, x2, x4, lsl #32",
        "ubfx x3, x3, #4, #4",
        "cbz x3, 1f",
        "orr x2, x2, #(1 << 36)",
        "1: msr tcr_el1, x2",
        "adrp x2, {tables}",
        "msr ttbr0_el1, x2",
        "msr ttbr1_el1, x0",
        // Programs may use FP and SIMD, and no other optional extension (CPACR_EL1.FPEN).
        "mov x2, #(3 << 20)",
        "msr cpacr_el1, x2",
        "isb",
        "tlbi vmalle1",
        "ic iallu",
        "dsb nsh",
        "isb",
        "ldr x2, ={sctlr_on}",
        "msr sctlr_el1, x2",
        "isb",
        "br x1",
        mair = const mmu::MAIR,
        tcr = const TCR,
        sctlr_on = const SCTLR_ON,
        tables = sym TABLES,
    )
}

/// The boot CPU's first instructions at the image's link address.
#[unsafe(naked)]
unsafe extern "C" fn image_start() {
    naked_asm!(
        "ldr x0, =__bss_start",
        "ldr x1, =__bss_end",
        "1: stp xzr, xzr, [x0], #16",
        "cmp x0, x1",
        "b.lo 1b",
        "ldr x0, =vectors_svc_first",
        "msr vbar_el1, x0",
        "isb",
        "ldr x0, ={cpu}",
        "msr sp_el0, x0",
        "ldr x0, ={stack} + {stack_size}",
        "sub sp, x0, {top}",
        "mov x29, xzr",
        "mov x30, xzr",
        "mov x0, x21",
        "mov x1, x22",
        "b {main}",
        cpu = sym cpu::BOOT,
        stack = sym BOOT_STACKS,
        stack_size = const size_of::<BootStack>(),
        top = const size_of::<StackTop>(),
        main = sym super::start::boot_cpu,
    )
}

/// A secondary CPU's first instructions, with the MMU off: x0 holds the address of its [`Cpu`].
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
pub(super) unsafe extern "C" fn start_other() {
    naked_asm!(
        "mov x20, x0",
        "bl {enter_kernel_level}",
        "adrp x0, {root}",
        "ldr x1, ={other_start}",
        "b {translate}",
        enter_kernel_level = sym enter_kernel_level,
        translate = sym translate,
        root = sym mmu::KERNEL_ROOT,
        other_start = sym other_start,
    )
}

/// A secondary CPU's first instructions at the image's link address.
#[unsafe(naked)]
unsafe extern "C" fn other_start() {
    naked_asm!(
        "ldr x0, =vectors_svc_first",
        "msr vbar_el1, x0",
        "isb",
        "msr sp_el0, x20",
        "ldr x0, [x20, {start_stack}]",
        "sub sp, x0, {top}",
        "mov x29, xzr",
        "mov x30, xzr",
        "b {main}",
        start_stack = const offset_of!(Cpu, start_stack),
        top = const size_of::<StackTop>(),
        main = sym smp::other_cpu,
    )
}

/// Replaces the kernel's root table by the one at x0, with an empty one in between: a TLB must
/// never hold two entries for one address (Arm ARM, "Using break-before-make"). Runs from the
/// identity map, and branches to x1.
#[unsafe(naked)]
#[unsafe(link_section = ".text.idmap")]
pub(super) unsafe extern "C" fn replace_root() {
    naked_asm!(
        "adrp x2, {empty}",
        "msr ttbr1_el1, x2",
        "isb",
        "tlbi vmalle1",
        "dsb nsh",
        "isb",
        "msr ttbr1_el1, x0",
        "isb",
        "br x1",
        empty = sym mmu::EMPTY_ROOT,
    )
}

/// Switches to the tables that [`memory_map`] built.
pub(super) fn use_kernel_root() {
    let code = mmu::virt_to_phys(replace_root as *const () as usize);
    // SAFETY: the identity map still exists and contains `replace_root`; the new root maps the
    // image at the same address, including this code, its stack and its data.
    unsafe {
        core::arch::asm!(
            "adr x1, 2f",
            "br {code}",
            "2:",
            code = in(reg) code,
            in("x0") mmu::kernel_root(),
            out("x1") _,
            out("x2") _,
            options(nostack),
        )
    };
    memory_map::clear_identity_map();
}
