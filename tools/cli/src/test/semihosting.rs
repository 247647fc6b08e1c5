//! A guest that asks its emulator by semihosting for a file of the user's machine gets none,
//! neither as the kernel of a machine nor as a guest in it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::Report;
use super::command::command;
use crate::arch::Arch;
use crate::project::Project;

/// The file that the guest tries to create in QEMU's working directory.
const FILE: &str = "made-by-a-guest";
/// The mode ("w") and the length of its name for SYS_OPEN (Arm IHI 0100).
const OPEN: [u64; 2] = [4, FILE.len() as u64];

/// The offsets of the guests' parts: the magic number of Linux's boot protocol, code, the block for
/// SYS_OPEN, its name, and the address to which an exception of an arm64 guest goes if its vectors
/// are at its start.
const MAGIC: usize = 0x38;
const START: usize = 0x40;
const BLOCK: usize = 0x98;
const NAME: usize = 0xb0;
const EXCEPTION: usize = 0x200;

/// An arm64 guest that calls SYS_OPEN, and turns its machine off in either case.
const ARM64: [u32; 8] = [
    0x10ff_fe00, // adr x0, 0
    0xd518_c000, // msr vbar_el1, x0
    0xd280_0020, // mov x0, #1: SYS_OPEN
    0x1000_0261, // adr x1, BLOCK
    0x1000_0302, // adr x2, NAME
    0xf900_0022, // str x2, [x1]
    0xd45e_0000, // hlt #0xf000
    0x1400_0069, // b EXCEPTION
];
const ARM64_OFF: [u32; 3] = [
    0x5280_0100, // mov w0, #8
    0x72b0_8000, // movk w0, #0x8400, lsl #16: PSCI's SYSTEM_OFF
    0xd400_0002, // hvc #0
];
/// The code of a RISC-V guest.
const RISCV64: [u32; 22] = [
    0x0000_0317, // auipc t1, 0
    0x03c3_0313, // addi t1, t1, 60: the last six
    0x1053_1073, // csrw stvec, t1
    0x0000_0317, // auipc t1, 0
    0x0643_0313, // addi t1, t1, 100: NAME
    0x0000_0597, // auipc a1, 0
    0x0445_8593, // addi a1, a1, 68: BLOCK
    0x0065_b023, // sd t1, 0(a1)
    0x0010_0513, // li a0, 1: SYS_OPEN
    0x0000_0013, // nop: the next three lie in one page
    0x0000_0013, // nop
    0x0000_0013, // nop
    0x01f0_1013, // slli zero, zero, 0x1f
    0x0010_0073, // ebreak
    0x4070_5013, // srai zero, zero, 7
    0x5352_58b7, // lui a7, 0x53525
    0x3548_8893, // addi a7, a7, 0x354: SBI's system reset
    0x0000_0813, // li a6, 0
    0x0000_0513, // li a0, 0: shutdown
    0x0000_0593, // li a1, 0
    0x0000_0073, // ecall
    0x0000_0013, // nop
];

/// Boots the guest in every possible way.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let folder = project.target.join(format!("tmp/guest-{}", arch.debian()));
    let guest = folder.join("guest");
    let ways = [
        ("kernel", program(arch, &image(arch))),
        ("guest", image(arch)),
    ];
    for (way, bytes) in ways {
        let name = format!("command/{}/semihosting-{way}", arch.debian());
        if !report.wants(&name) || way == "guest" && arch != Arch::Arm64 {
            continue;
        }
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        fs::write(&guest, bytes)?;
        let mut command = command(project)?;
        match way {
            "kernel" => command
                .args(["run", "--arch", arch.debian(), "--on"])
                .arg(&guest)
                .args(["--", "true"]),
            _ => command.args(["vm", "--guest-kernel"]).arg(&guest),
        };
        run_and_check(report, &name, &folder, command)?;
    }
    Ok(())
}

/// Runs the command in a folder where no file may appear.
fn run_and_check(
    report: &mut Report,
    name: &str,
    folder: &Path,
    mut command: Command,
) -> Result<()> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // A kernel that turns its machine off has run no program, but a guest may do so.
    let ended = matches!(output.status.code(), Some(0 | 125)) && !said.contains("QEMU still runs");
    match folder.join(FILE).exists() {
        true => report.failed(name, "a guest made a file of the host's"),
        false if ended => report.passed(1),
        false => report.failed(name, &format!("{}\n{said}", output.status)),
    }
    Ok(())
}

/// The guest with a header of Linux's boot protocol, in which RISC-V needs its place and size.
fn image(arch: Arch) -> Vec<u8> {
    let mut image = vec![0; EXCEPTION + 4 * ARM64_OFF.len()];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let (jump, magic, code): (u32, _, &[u32]) = match arch {
        Arch::Arm64 => (0x1400_0010, b"ARM\x64", &ARM64),
        Arch::Riscv64 => (0x0400_006f, b"RSC\x05", &RISCV64),
    };
    put(0, &jump.to_le_bytes());
    put(0x10, &0x1000u64.to_le_bytes());
    if arch == Arch::Riscv64 {
        put(0x8, &0x20_0000u64.to_le_bytes());
    }
    put(MAGIC, magic);
    put(START, &words(code));
    let [mode, len] = OPEN.map(u64::to_le_bytes);
    put(BLOCK + 8, &[mode, len].concat());
    put(NAME, FILE.as_bytes());
    if arch == Arch::Arm64 {
        put(EXCEPTION, &words(&ARM64_OFF));
    }
    image
}

fn words(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An ELF file with one segment, as the command gives it to a machine of a Stile.
fn program(arch: Arch, image: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    let machine: u16 = match arch {
        Arch::Arm64 => 183,
        Arch::Riscv64 => 243,
    };
    let len = image.len() as u64;
    let long = |values: &[u64]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let short = |values: &[u16]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let parts: [Vec<u8>; 7] = [
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        short(&[2, machine, 1, 0]),
        // The entry, and where the segment's header is.
        long(&[0, 64, 0]),
        short(&[0, 0, 64, 56, 1, 64, 0, 0]),
        // A loaded segment, of all permissions.
        short(&[1, 0, 7, 0]),
        long(&[HEADERS, 0, 0, len, len, 1]),
        image.to_vec(),
    ];
    parts.concat()
}
