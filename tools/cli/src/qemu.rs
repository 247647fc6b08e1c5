//! QEMU: the host's own if it is new enough, else Debian's unpacked in the cache; and its command
//! line.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::arch::Arch;
use crate::disk::{self, Disk};
use crate::host_programs::HostPrograms;
use crate::kernel_image::Kernel;
use crate::project::{Project, find_program, output};
use crate::share::{self, Share};

/// The oldest QEMU with everything that the machines here use.
const OLDEST: u32 = 10;

/// The accelerator, which executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// The host's virtualisation if it matches the guest's architecture, otherwise emulation.
    Auto,
    /// Emulation.
    Tcg,
    /// Linux's virtualisation.
    Kvm,
    /// macOS's virtualisation.
    Hvf,
}

/// A QEMU that can be started.
pub struct Qemu {
    /// The words of the command that starts it.
    pub command: Vec<OsString>,
    /// Its version.
    pub version: String,
}

impl Qemu {
    /// The QEMU for an architecture.
    pub fn find(project: &Project, arch: Arch) -> Result<Self> {
        match Self::of_host(arch) {
            Some(qemu) => Ok(qemu),
            None => Self::of_debian(project, arch),
        }
    }

    /// The host's own QEMU, if it is new enough.
    pub fn of_host(arch: Arch) -> Option<Self> {
        let qemu = Self::started_by(vec![find_program(arch.qemu())?.into_os_string()]).ok()?;
        let major: u32 = qemu.version.split('.').next()?.parse().ok()?;
        (major >= OLDEST).then_some(qemu)
    }

    /// Debian's QEMU, if it is in the cache.
    pub fn of_debian_cached(project: &Project, arch: Arch) -> Option<Self> {
        Self::among(&HostPrograms::cached(project, CLOSURE)?, arch).ok()
    }

    /// Debian's QEMU.
    fn of_debian(project: &Project, arch: Arch) -> Result<Self> {
        let names = ["qemu-system-arm", "qemu-system-riscv", "qemu-system-misc"];
        let programs = HostPrograms::new(project, CLOSURE, &names).with_context(|| {
            format!(
                "{} {OLDEST} or newer is not installed, and could not be had",
                arch.qemu()
            )
        })?;
        Self::among(&programs, arch)
    }

    fn among(programs: &HostPrograms, arch: Arch) -> Result<Self> {
        let mut command = programs.command(&format!("usr/bin/{}", arch.qemu()));
        command.extend(["-L".into(), programs.file("usr/share/qemu").into()]);
        Self::started_by(command)
    }

    /// The QEMU that this command starts, in its sandbox if it was built with one (which needs
    /// Linux).
    fn started_by(command: Vec<OsString>) -> Result<Self> {
        let confined = [&*command, &SANDBOX.map(OsString::from)].concat();
        if let Ok(version) = version(&confined) {
            return Ok(Self {
                command: confined,
                version,
            });
        }
        let version = version(&command)?;
        Ok(Self { command, version })
    }
}

/// The sandbox: a guest that broke out into QEMU could not start programs, or change identity or
/// priority.
const SANDBOX: [&str; 2] = [
    "-sandbox",
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
];

/// The name of the unpacked QEMU in the cache.
const CLOSURE: &str = "qemu";

fn version(command: &[OsString]) -> Result<String> {
    let said = output(
        Command::new(&command[0])
            .args(&command[1..])
            .arg("--version"),
        "asking QEMU for its version",
    )?;
    let words = said
        .split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1);
    Ok(words.context("QEMU did not say its version")?.to_owned())
}

/// A machine to boot.
pub struct Machine<'a> {
    /// Its architecture.
    pub arch: Arch,
    /// The kernel that it boots, which decides its devices.
    pub kernel: &'a Kernel,
    /// The CPU model.
    pub cpu: Option<&'a str>,
    /// The number of CPUs.
    pub smp: u32,
    /// The size of memory, in QEMU's notation.
    pub memory: &'a str,
    /// Whether time is counted in instructions.
    pub icount: bool,
    /// Whether addresses stay as random as the kernel makes them from QEMU's seed: Linux's
    /// mitigations are part of its cost.
    pub as_shipped: bool,
    /// The accelerator that executes its instructions.
    pub accel: Accel,
    /// The TCP port on which to wait for a debugger.
    pub debugger: Option<u16>,
    /// Parameters of the kernel besides those that the machine needs.
    pub append: Vec<String>,
    /// Its disks; the first one is /dev/vda.
    pub disks: Vec<Disk>,
    /// Folders of the host that it has.
    pub shares: Vec<Share>,
    /// Further arguments for QEMU.
    pub options: Vec<String>,
}

/// The files of a boot.
pub struct Files<'a> {
    /// The kernel's image.
    pub image: &'a Path,
    /// The initramfs.
    pub initramfs: &'a Path,
    /// The file for the kernel's log.
    pub log: &'a Path,
    /// The folder of files that are removed with the machine.
    pub folder: &'a Path,
}

impl Machine<'_> {
    /// The device of the channel for programs/init.
    pub fn channel_device(&self) -> &'static str {
        match (self.kernel.is_stile(), self.arch) {
            (true, _) => "/dev/hvc0",
            (_, Arch::Arm64) => "/dev/ttyAMA1",
            (_, Arch::Riscv64) => "/dev/ttyS1",
        }
    }

    /// The resolved accelerator: `kvm`, `hvf` or `tcg`.
    fn accelerator(&self) -> &'static str {
        let native = self.arch.host_name() == std::env::consts::ARCH;
        match self.accel {
            Accel::Kvm => "kvm",
            Accel::Hvf => "hvf",
            Accel::Auto if native && !self.icount && cfg!(target_os = "macos") => "hvf",
            Accel::Auto if native && !self.icount && Path::new("/dev/kvm").exists() => "kvm",
            Accel::Auto | Accel::Tcg => "tcg",
        }
    }

    /// QEMU's arguments. The channel is the open socket `channel`.
    pub fn arguments(&self, files: &Files, channel: i32) -> Vec<OsString> {
        let accelerator = self.accelerator();
        let native = accelerator != "tcg";
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &str| {
            words.push(name.into());
            words.push(value.into());
        };
        match self.arch {
            Arch::Arm64 => option("-machine", "virt,gic-version=3"),
            Arch::Riscv64 => option("-machine", "virt"),
        }
        match accelerator {
            "tcg" if self.icount => option("-accel", "tcg,thread=single"),
            other => option("-accel", other),
        }
        option(
            "-cpu",
            self.cpu.unwrap_or(if native {
                "host"
            } else {
                self.arch.default_cpu()
            }),
        );
        option("-smp", &self.smp.to_string());
        option("-m", self.memory);
        option("-display", "none");
        option("-monitor", "none");
        if self.icount {
            option("-icount", "shift=0,sleep=off");
            option("-seed", "1");
            option("-rtc", "base=2026-01-01T00:00:00,clock=vm");
        }
        option("-chardev", &format!("socket,id=channel,fd={channel}"));
        option("-serial", &format!("file:{}", files.log.display()));
        match (self.kernel.is_stile(), self.arch) {
            (true, _) => {
                option("-global", "virtio-mmio.force-legacy=false");
                option("-device", "virtio-serial-device");
                option("-device", "virtconsole,chardev=channel");
            }
            (_, Arch::Arm64) => option("-serial", "chardev:channel"),
            (_, Arch::Riscv64) => option("-device", "pci-serial,chardev=channel"),
        }
        for (node, device) in disk::options(&self.disks, self.arch, files.folder) {
            option("-blockdev", &node);
            option("-device", &device);
        }
        for (server, device) in share::options(&self.shares, self.arch, files.folder) {
            option("-fsdev", &server);
            option("-device", &device);
        }
        option("-append", &self.parameters());
        words.push("-kernel".into());
        words.push(files.image.into());
        words.push("-initrd".into());
        words.push(files.initramfs.into());
        words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
        if let Some(port) = self.debugger {
            words.extend(["-gdb", &format!("tcp:localhost:{port}"), "-S"].map(OsString::from));
        }
        words.extend(self.options.iter().map(OsString::from));
        words
    }

    /// The kernel's command line.
    fn parameters(&self) -> String {
        let mut words: Vec<&str> = match (self.kernel.is_stile(), self.arch) {
            (true, _) => Vec::new(),
            (_, Arch::Arm64) => vec!["console=ttyAMA0", "quiet"],
            (_, Arch::Riscv64) => vec!["console=ttyS0", "quiet", "cryptomgr.notests=1"],
        };
        if self.icount && !self.as_shipped {
            words.push("norandmaps");
            if !self.kernel.is_stile() {
                words.push("nokaslr");
            }
        }
        words.extend(self.append.iter().map(String::as_str));
        words.join(" ")
    }
}

/// Splits a line into words like a shell, with regard to blanks and quotes.
pub fn split_words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        bail!("an open quote in: {line}");
    }
    words.extend(word);
    Ok(words)
}

/// A command line in the form that a shell reads.
pub fn shell_line(words: &[OsString]) -> String {
    let quote = |word: &OsString| {
        let text = word.to_string_lossy();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=.,:/+%@".contains(letter);
        if !text.is_empty() && text.chars().all(plain) {
            text.into_owned()
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn words_are_split_like_a_shells() {
        assert_eq!(
            split_words(" -d  int '-x y' a\"b c\"d ''").unwrap(),
            ["-d", "int", "-x y", "ab cd", ""]
        );
        assert!(split_words("'open").is_err());
    }
}
