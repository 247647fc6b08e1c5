//! Damaged device trees, archives and command lines: the kernel boots, or names the damage and
//! stops. It never hangs, and never ends silently.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use wire::{Channel, Control};

use super::Report;
use super::machines::{self, Setting};
use super::mutation::{self, Random};
use crate::arch::Arch;
use crate::disk;
use crate::guest;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::project::{Project, output};
use crate::qemu::{Files, Qemu};
use crate::session::{Event, Folder, Link, Session};

/// The time limit for a machine. The kernel itself waits at most a few seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// How often its log is checked meanwhile.
const LOOK: Duration = Duration::from_secs(1);
/// The kernel's last line if the damaged tree does not name the firmware.
const HALTED: &str = "this machine cannot be turned off";
/// The number of seeds that are tried for trees and for archives.
const SEEDS: u64 = 12;
const QUICK_SEEDS: u64 = 4;
const LONG_SEEDS: u64 = 400;

/// Boots with one kind of damage after another.
pub fn test(
    project: &Project,
    options: &TestOptions,
    arch: Arch,
    report: &mut Report,
) -> Result<()> {
    let Some(setting) = machines::first(arch) else {
        return Ok(());
    };
    let seeds = match (options.quick, options.long) {
        (true, _) => QUICK_SEEDS,
        (_, true) => LONG_SEEDS,
        _ => SEEDS,
    };
    let wanted = |report: &Report, what: &str| -> Vec<(String, u64)> {
        (0..seeds)
            .map(|seed| (format!("damage/{}/{what}-{seed}", arch.debian()), seed))
            .filter(|(name, _)| report.wants(name))
            .collect()
    };
    let (trees, archives) = (wanted(report, "tree"), wanted(report, "archive"));
    if trees.is_empty() && archives.is_empty() {
        return Ok(());
    }
    let bench = Bench::new(project, &setting)?;
    // Undamaged input must work.
    bench.boot_and_check(
        report,
        &format!("damage/{}", arch.debian()),
        "",
        &bench.tree,
        &bench.archive,
    )?;
    for (name, seed) in trees {
        let (tree, how) = mutation::tree(&bench.tree, &mut Random::new(seed));
        bench.boot_and_check(report, &name, &how, &tree, &bench.archive)?;
    }
    for (name, seed) in archives {
        let (archive, how) = mutation::archive(&bench.archive, &mut Random::new(seed));
        bench.boot_and_check(report, &name, &how, &bench.tree, &archive)?;
    }
    Ok(())
}

/// The files that all boots share.
struct Bench<'a> {
    project: &'a Project,
    setting: &'a Setting,
    kernel: Kernel,
    image: PathBuf,
    qemu: Qemu,
    /// The machine's undamaged device tree.
    tree: Vec<u8>,
    archive: Vec<u8>,
}

impl<'a> Bench<'a> {
    fn new(project: &'a Project, setting: &'a Setting) -> Result<Self> {
        let kernel = Kernel::Stile;
        let mut files = guest::tree(project, setting.arch)?;
        files.text(
            "stile/channel",
            setting.machine(&kernel, &[]).channel_device().as_bytes(),
        );
        files.text(wire::JOBS_PATH, &wire::job::encode(&[guest::job(["true"])]));
        let mut bench = Bench {
            project,
            setting,
            image: kernel.image(project, setting.arch)?,
            kernel,
            qemu: Qemu::find(project, setting.arch)?,
            tree: Vec::new(),
            archive: files.write()?,
        };
        bench.tree = bench.tree_of_machine()?;
        mutation::trim(&mut bench.tree);
        if setting.arch == Arch::Riscv64 {
            without_firmware(&mut bench.tree);
        }
        Ok(bench)
    }

    /// Asks QEMU for the tree that it would boot with.
    fn tree_of_machine(&self) -> Result<Vec<u8>> {
        let (folder, link) = (Folder::new(self.project.cache.join("run"))?, Link::new()?);
        let place = folder.file("machine");
        let options = ["-machine".into(), format!("dumpdtb={}", place.display())];
        let command = self.command(&folder, &link, options.to_vec(), &self.archive)?;
        output(
            Command::new(&command[0]).args(&command[1..]),
            "asking QEMU for its device tree",
        )?;
        Ok(fs::read(&place)?)
    }

    /// QEMU's command line for a machine that starts with a stub in place of a kernel.
    fn command(
        &self,
        folder: &Folder,
        link: &Link,
        options: Vec<String>,
        archive: &[u8],
    ) -> Result<Vec<OsString>> {
        let [image, initramfs, log] = ["stub", "initramfs", "log"].map(|name| folder.file(name));
        fs::write(&image, stub(self.setting.arch))?;
        fs::write(&initramfs, archive)?;
        let mut machine = self.setting.machine(&self.kernel, &[]);
        machine.options.extend(options);
        let files = Files {
            image: &image,
            initramfs: &initramfs,
            log: &log,
            folder: folder.path(),
        };
        Ok([
            self.qemu.command.clone(),
            machine.arguments(&files, link.guest()),
        ]
        .concat())
    }

    /// Boots with a tree and an archive, damaged as `how` describes, and reports the result.
    fn boot_and_check(
        &self,
        report: &mut Report,
        name: &str,
        how: &str,
        tree: &[u8],
        archive: &[u8],
    ) -> Result<()> {
        let (folder, link) = (Folder::new(self.project.cache.join("run"))?, Link::new()?);
        let (place, log) = (folder.file("tree"), folder.file("log"));
        fs::write(&place, tree)?;
        let at = addresses(self.setting.arch);
        let load = |file: &Path, at: u64| {
            format!("loader,file={},addr={at:#x},force-raw=on", file.display())
        };
        let options = [
            "-device".into(),
            load(&self.image, at.image),
            "-device".into(),
            load(&place, at.tree),
        ];
        let command = self.command(&folder, &link, options.to_vec(), archive)?;
        let mut session = Session::start(&command, link, folder, log, disk::most_bytes(&[]))?;
        let deadline = Instant::now() + LIMIT;
        let mut ran = false;
        let ended = loop {
            match session.next(Some(Instant::now() + LOOK)) {
                Event::Frame(Channel::Control, said) => {
                    ran |= Control::decode(&said) == Some(Control::Exited(0))
                }
                Event::Closed => break session.finish()?.is_some(),
                Event::TimedOut if session.log().contains(HALTED) => break true,
                Event::TimedOut if Instant::now() > deadline => break false,
                _ => {}
            }
        };
        let said = session
            .log()
            .lines()
            .any(|line| line.starts_with('[') || line.contains("device tree"));
        let fault = match ended {
            false => "it did not end",
            true if !ran && !said => "it ended without a word",
            true if !ran && how.is_empty() => "it did not run the program",
            true => {
                report.passed(1);
                return Ok(());
            }
        };
        report.failed(name, &format!("{how}: {fault}\n{}", session.log_end()));
        Ok(())
    }
}

/// Removes the memory that QEMU's RISC-V firmware uses from a tree, as the firmware does.
fn without_firmware(tree: &mut [u8]) {
    const START: u64 = 0x8000_0000;
    const FIRMWARE: u64 = 2 << 20;
    for at in (0..tree.len() - 16).step_by(4) {
        let number = |at: usize| u64::from_be_bytes(tree[at..at + 8].try_into().expect("eight"));
        let (start, size) = (number(at), number(at + 8));
        if start == START {
            tree[at..at + 8].copy_from_slice(&(start + FIRMWARE).to_be_bytes());
            tree[at + 8..at + 16].copy_from_slice(&(size - FIRMWARE).to_be_bytes());
        }
    }
}

/// The addresses of the image and the tree, away from QEMU's own data.
struct Addresses {
    image: u64,
    tree: u64,
}

fn addresses(arch: Arch) -> Addresses {
    match arch {
        Arch::Arm64 => Addresses {
            image: 0x4020_0000,
            tree: 0x5800_0000,
        },
        Arch::Riscv64 => Addresses {
            image: 0x8040_0000,
            tree: 0x9800_0000,
        },
    }
}

/// Code that jumps to the image as a loader does, with the address of the damaged tree, which QEMU
/// itself refuses to pass on.
fn stub(arch: Arch) -> Vec<u8> {
    let code: [u32; 4] = match arch {
        // ldr x0, tree; ldr x4, image; br x4; nop
        Arch::Arm64 => [0x5800_0080, 0x5800_00a4, 0xd61f_0080, 0xd503_201f],
        // auipc t0, 0; ld a1, 16(t0); ld t1, 24(t0); jr t1
        Arch::Riscv64 => [0x0000_0297, 0x0102_b583, 0x0182_b303, 0x0003_0067],
    };
    let Addresses { image, tree } = addresses(arch);
    let words = code.into_iter().flat_map(u32::to_le_bytes);
    words
        .chain([tree, image].into_iter().flat_map(u64::to_le_bytes))
        .collect()
}
