//! A copy of Stile's kernel that needs ten instructions more for a system call, which the bench
//! must report as ten.
//!
//! One instruction of the path is replaced by a branch to eight instructions that do nothing, the
//! replaced one, and a branch back. These overwrite a function that only a panic calls.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use object::{Object, ObjectSegment, ObjectSymbol};

use super::counted::Executed;
use super::path::address;
use crate::arch::Arch;
use crate::project::Project;
use crate::toolchain;

/// The number of additional instructions.
pub const MORE: u64 = IDLE as u64 + 2;
/// Those that are neither of the two branches.
const IDLE: usize = 8;
/// The length of an instruction that is replaced, in bytes.
const WORD: u64 = 4;
/// The panic handler: it is long enough, and linked next to the entries, as a RISC-V branch reaches
/// only 1 MiB.
const UNUSED: &str = "__rustc::rust_begin_unwind";

/// Creates the copy, an ELF file. `way` are the kernel's instructions for a system call, from entry
/// to return.
pub fn copy(project: &Project, arch: Arch, way: &[Executed]) -> Result<PathBuf> {
    let mut bytes = fs::read(toolchain::kernel_place(project, arch, &[]))?;
    let file = object::File::parse(&*bytes)?;
    let unused = file
        .symbols()
        .find(|symbol| symbol.name().is_ok_and(|name| demangled(name) == UNUSED))
        .with_context(|| format!("the kernel has no {UNUSED}"))?;
    let place = unused.address().next_multiple_of(WORD);
    let room = unused.address() + unused.size() - place;
    let needed = MORE * WORD;
    anyhow::ensure!(room >= needed, "{UNUSED} has {room} bytes, not {needed}");
    let (pc, word) = way
        .iter()
        .map(|step| (address(&step.pc), address(&step.word) as u32))
        .rfind(|(pc, word)| moves(arch, *word) && is_once(way, *pc))
        .context("no instruction on the way can be moved")?;
    let mut words = vec![nothing(arch); IDLE];
    words.push(word);
    words.push(branch(arch, place + (IDLE as u64 + 1) * WORD, pc + WORD));
    let mut patches: Vec<_> = (place..).step_by(WORD as usize).zip(words).collect();
    patches.push((pc, branch(arch, pc, place)));
    let patches: Vec<_> = patches
        .into_iter()
        .map(|(at, word)| Some((offset(&file, at)?, word)))
        .collect::<Option<_>>()
        .context("an address outside the file")?;
    for (offset, word) in patches {
        bytes[offset..][..WORD as usize].copy_from_slice(&word.to_le_bytes());
    }
    let copy = project.target.join(format!("slowed-{}", arch.debian()));
    fs::write(&copy, bytes).with_context(|| copy.display().to_string())?;
    Ok(copy)
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn is_once(way: &[Executed], pc: u64) -> bool {
    way.iter().filter(|step| address(&step.pc) == pc).count() == 1
}

/// The offset in the file of a virtual address.
fn offset(file: &object::File, at: u64) -> Option<usize> {
    file.segments().find_map(|segment| {
        let (start, length) = segment.file_range();
        let inside = at
            .checked_sub(segment.address())
            .filter(|inside| *inside < length)?;
        Some((start + inside) as usize)
    })
}

/// Whether an instruction does the same at any address.
fn moves(arch: Arch, word: u32) -> bool {
    match arch {
        // "Loads and stores" except "load register (literal)": Arm ARM, "A64 instruction set
        // encoding".
        Arch::Arm64 => word & 0x0a00_0000 == 0x0800_0000 && word & 0x3b00_0000 != 0x1800_0000,
        // LOAD, STORE, OP-IMM and OP of four bytes: RISC-V unprivileged ISA, chapter "RV32/64G
        // instruction set listings".
        Arch::Riscv64 => matches!(word & 0x7f, 0x03 | 0x23 | 0x13 | 0x33),
    }
}

/// An instruction without effect.
fn nothing(arch: Arch) -> u32 {
    match arch {
        Arch::Arm64 => 0xd503_201f,
        Arch::Riscv64 => 0x0000_0013,
    }
}

/// A branch from one address to another.
fn branch(arch: Arch, from: u64, to: u64) -> u32 {
    let distance = to.wrapping_sub(from) as u32;
    match arch {
        // B (Arm ARM).
        Arch::Arm64 => 0x1400_0000 | distance >> 2 & 0x03ff_ffff,
        // JAL x0: the immediate's bits 20, 10:1, 11 and 19:12.
        Arch::Riscv64 => {
            let bits = |from: u32, count: u32| distance >> from & ((1 << count) - 1);
            bits(20, 1) << 31 | bits(1, 10) << 21 | bits(11, 1) << 20 | bits(12, 8) << 12 | 0x6f
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arch, branch};

    #[test]
    fn branches_are_encoded_as_an_assembler_does() {
        assert_eq!(branch(Arch::Arm64, 0x1000, 0x1008), 0x1400_0002);
        assert_eq!(branch(Arch::Arm64, 0x1008, 0x1000), 0x17ff_fffe);
        assert_eq!(branch(Arch::Riscv64, 0x1000, 0x1800), 0x0010_006f);
        assert_eq!(branch(Arch::Riscv64, 0x1008, 0x1000), 0xff9f_f06f);
    }
}
