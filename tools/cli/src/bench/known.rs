//! Bare-metal programs whose counts are known: the instructions of each phase, at each level and by
//! privilege, and the address of each.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::counted::{self, Counted, Executed, Ring};
use super::path::address;
use crate::arch::Arch;
use crate::project::Project;
use crate::qemu::Qemu;
use crate::session::Folder;

/// Words of a program, and the byte offset at which they start.
type Part = (usize, &'static [u32]);

/// The arm64 program, as LLVM's assembler encodes it. Its memory is mapped at its physical
/// addresses, and also at those with the bits of [`HIGH`].
const ARM64: [Part; 3] = [
    (
        0,
        &[
            0x1000_8000, // adr x0, 0x1000
            0xd518_2000, // msr ttbr0_el1, x0
            0xd518_2020, // msr ttbr1_el1, x0
            0x1000_3fa1, // adr x1, 0x800
            0xd518_c001, // msr vbar_el1, x1
            0xd280_0321, // mov x1, #0x19: 39 bits of addresses, pages of 4 KiB
            0xf2b0_0321, // movk x1, #0x8019, lsl #16
            0xd518_2041, // msr tcr_el1, x1
            0xd280_1fe1, // mov x1, #0xff: memory that is cached
            0xd518_a201, // msr mair_el1, x1
            0xd503_3fdf, // isb
            0xd538_1001, // mrs x1, sctlr_el1
            0xb240_0021, // orr x1, x1, #1: tables are used
            0xd518_1001, // msr sctlr_el1, x1
            0xd503_3fdf, // isb
            0xd280_003f, // marker 1
            0x9400_000b, // bl FUNCTION
            0xd280_001f, // marker 0
            0xd280_003f, // marker 1
            0x1000_0102, // adr x2, FUNCTION
            0xb259_6042, // orr x2, x2, #HIGH
            0xd63f_0040, // blr x2
            0xd280_001f, // marker 0
            0x1000_00e2, // adr x2, the program
            0xd518_4022, // msr elr_el1, x2
            0xd518_401f, // msr spsr_el1, xzr
            0xd69f_03e0, // eret
            0xd503_201f, // FUNCTION: nop
            0xd503_201f, // nop
            0xd65f_03c0, // ret
            0xd280_005f, // marker 2
            0xd503_201f, // nop
            0xd503_201f, // nop
            0xd400_0001, // svc #0
        ],
    ),
    (
        0xc00,
        &[
            0xd280_001f, // marker 0
            0x5280_0100, // mov w0, #8
            0x72b0_8000, // movk w0, #0x8400, lsl #16: PSCI's SYSTEM_OFF
            0xd400_0002, // hvc #0
        ],
    ),
    // The second entry of a table: a block of 1 GiB at 0x40000000, to read and execute for all.
    (0x1008, &[0x4000_07c1, 0]),
];
const FUNCTION: u64 = 0x4020_006c;
const HIGH: u64 = 0xffff_ff80_0000_0000;

/// The RISC-V program: it runs in machine, supervisor, and user mode.
const RISCV64: [Part; 1] = [(
    0,
    &[
        0x0010_2013, // marker 1
        0x0000_0013, // nop
        0x0000_0013, // nop
        0x0000_2013, // marker 0
        0xfff0_0293, // li t0, -1
        0x3b02_9073, // csrw pmpaddr0, t0
        0x01f0_0293, // li t0, 31: all memory is for all
        0x3a02_9073, // csrw pmpcfg0, t0
        0x0000_12b7, // lui t0, 1
        0x8002_829b, // addiw t0, t0, -2048: the supervisor's is the mode before
        0x3002_9073, // csrw mstatus, t0
        0x0000_0297, // auipc t0, 0
        0x0102_8293, // addi t0, t0, 16
        0x3412_9073, // csrw mepc, t0
        0x3020_0073, // mret
        0x0020_2013, // marker 2
        0x0000_0013, // nop
        0x0000_0013, // nop
        0x0000_2013, // marker 0
        0x0000_0297, // auipc t0, 0
        0x0102_8293, // addi t0, t0, 16
        0x1412_9073, // csrw sepc, t0
        0x1020_0073, // sret
        0x0030_2013, // marker 3
        0x0000_0013, // nop
        0x0000_0013, // nop
        0x0000_2013, // marker 0
        0x0010_02b7, // lui t0, 0x100: the machine's switch
        0x0000_5337, // lui t1, 5
        0x5553_0313, // addi t1, t1, 0x555: off
        0x0062_a023, // sw t1, 0(t0)
    ],
)];

/// The kinds that count a phase's instructions, by ring.
const KINDS: [&str; 3] = [
    "instructions.user",
    "instructions.kernel",
    "instructions.firmware",
];

/// Runs the program; returns the difference, if the counts are not the expected ones.
pub fn check(project: &Project, arch: Arch) -> Result<Option<String>> {
    let counted = run(project, arch)?;
    let phases = |tags: &[u32]| -> Vec<_> {
        let of = |tag: &u32| KINDS.map(|kind| counted.phase(*tag, &[kind]));
        tags.iter().map(of).collect()
    };
    // A marker belongs to the phase that it begins. Arm64's first phase occurs twice.
    let (found, wanted) = match arch {
        Arch::Arm64 => (phases(&[1, 2]), vec![[0, 5 + 7, 0], [4, 0, 0]]),
        Arch::Riscv64 => (phases(&[1, 2, 3]), vec![[0, 0, 3], [0, 3, 0], [3, 0, 0]]),
    };
    if found != wanted {
        return Ok(Some(format!("counted {found:?}, not {wanted:?}")));
    }
    let moved = HIGH | FUNCTION;
    let way: Vec<_> = counted.trace.iter().map(place).collect();
    let is_there = way.len() == 7
        && way.iter().all(|(_, ring)| *ring == Ring::Kernel)
        && way[4..]
            .iter()
            .map(|(pc, _)| *pc)
            .eq([moved, moved + 4, moved + 8]);
    let is_right = arch == Arch::Riscv64 || is_there;
    Ok((!is_right).then(|| format!("executed {way:x?}")))
}

fn place(executed: &Executed) -> (u64, Ring) {
    (address(&executed.pc), executed.ring)
}

fn run(project: &Project, arch: Arch) -> Result<Counted> {
    let (parts, at, more): (&[Part], u64, &[&str]) = match arch {
        Arch::Arm64 => (&ARM64, 0x4020_0000, &["-cpu", "cortex-a72"]),
        Arch::Riscv64 => (&RISCV64, 0x8000_0000, &["-bios", "none"]),
    };
    let mut image = vec![0; 0x2000];
    for (from, words) in parts {
        for (place, word) in words.iter().enumerate() {
            image[from + 4 * place..][..4].copy_from_slice(&word.to_le_bytes());
        }
    }
    let folder = Folder::new(project.cache.join("run"))?;
    let [program, counts] = ["program", "counts"].map(|name| folder.file(name));
    fs::write(&program, image)?;
    let plugin = counted::plugin(project)?;
    let command = Qemu::find(project, arch)?.command;
    let loaded = format!("loader,file={},addr={at:#x},cpu-num=0", program.display());
    let plugin = format!(
        "file={},out={},trace=1,skip=1",
        plugin.display(),
        counts.display()
    );
    let status = Command::new(&command[0])
        .args(&command[1..])
        .args([
            "-machine",
            "virt",
            "-m",
            "64M",
            "-icount",
            "shift=0,sleep=off",
        ])
        .args(["-display", "none", "-monitor", "none", "-serial", "none"])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(more)
        .args(["-device", &loaded, "-plugin", &plugin])
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "QEMU: {status}");
    Counted::read(&counts)
}
