//! Guests to run: their kernels and file trees.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

use crate::arch::Arch;
use crate::initramfs::Initramfs;
use crate::kernel_image::{Kernel, flat_image};
use crate::packages;
use crate::project::Project;
use crate::qemu;
use crate::terminal;
use crate::toolchain;

/// PID 1 of a guest.
const INIT: &str = include_str!("init.sh");
/// The program of a guest if none is named and there is no terminal.
const TOUR: &str = include_str!("tour.sh");

/// The command line of a Linux guest, which makes it quiet, and reset after a panic.
pub const PARAMETERS: &str =
    "console=ttyAMA0 rdinit=/init quiet loglevel=1 panic=-1 cryptomgr.notests=1";

/// The modules that a Linux guest loads, in order: its devices, and streams to the VMM.
const MODULES: [&str; 7] = [
    "drivers/virtio/virtio_mmio",
    "drivers/char/virtio_console",
    "drivers/block/virtio_blk",
    "drivers/char/hw_random/virtio-rng",
    "net/vmw_vsock/vsock",
    "net/vmw_vsock/vmw_vsock_virtio_transport_common",
    "net/vmw_vsock/vmw_vsock_virtio_transport",
];

/// A guest's kernel.
pub enum System {
    /// The guest that measures its exits.
    Bench,
    /// A stock kernel, which gets a file tree.
    Linux(String),
    /// The kernel of this checkout, with the same tree.
    Stile,
    /// A flat image or a Linux Image.
    File(PathBuf),
}

impl System {
    /// The system that `--guest-kernel` names.
    pub fn from_option(text: &str) -> Self {
        match Kernel::from_option(text) {
            _ if text == "bench" => Self::Bench,
            Kernel::Linux(version) => Self::Linux(version),
            Kernel::Stile => Self::Stile,
            _ => Self::File(text.into()),
        }
    }

    /// Builds or fetches it.
    pub fn image(&self, project: &Project) -> Result<PathBuf> {
        match self {
            Self::Bench => bench(project),
            Self::Linux(version) => Kernel::Linux(version.clone()).image(project, Arch::Arm64),
            Self::Stile => Kernel::Stile.image(project, Arch::Arm64),
            Self::File(path) => Ok(path.clone()),
        }
    }
}

/// Builds the guest that measures its exits: a flat image.
pub fn bench(project: &Project) -> Result<PathBuf> {
    flat_image(&toolchain::bare_program(
        project,
        Arch::Arm64,
        "guest-bench",
    )?)
}

/// The files and parameters of a guest besides its kernel.
pub struct Files {
    /// Its initial archive.
    pub archive: Vec<u8>,
    /// Its command line.
    pub parameters: &'static str,
}

/// The files of a guest that runs `program`, with these packages, programs of lmbench, and sources
/// of packages; without a program a shell on a terminal, otherwise the tour. None if the guest is
/// unknown.
pub fn files(
    project: &Project,
    system: &System,
    program: &[OsString],
    wanted: &[String],
    sources: &[String],
    interactive: bool,
) -> Result<Option<Files>> {
    let (modules, parameters) = match system {
        System::Linux(version) => {
            let modules = packages::linux_modules(project, Arch::Arm64, version, &MODULES)?;
            (modules, PARAMETERS)
        }
        System::Stile => (Vec::new(), ""),
        System::Bench | System::File(_) => return Ok(None),
    };
    let mut tree = Initramfs::new(project, Arch::Arm64);
    tree.script("init", INIT.as_bytes());
    tree.add_busybox()?;
    let (lmbench, debian): (Vec<String>, Vec<String>) = wanted
        .iter()
        .cloned()
        .partition(|name| packages::is_lmbench(name));
    if !debian.is_empty() {
        packages::install(project, Arch::Arm64, &debian, &mut tree)?;
    }
    for name in lmbench {
        let file = packages::lmbench(project, Arch::Arm64)?.join(&name);
        tree.file(&format!("usr/bin/{name}"), &file)?;
    }
    for name in sources {
        let source = packages::source(project, name)?;
        tree.copy(&format!("usr/src/{name}"), &source)?;
    }
    tree.folder("stile/modules");
    for (at, module) in modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        tree.file(&format!("stile/modules/{at}-{name}"), module)?;
    }
    let mut job = match (program, interactive) {
        ([], true) => "exec sh -il\n".into(),
        ([], false) => TOUR.into(),
        (words, _) => format!("exec {}\n", qemu::shell_line(words)),
    };
    if interactive {
        let (rows, columns) = terminal::size();
        let kind = std::env::var("TERM").unwrap_or_else(|_| "vt100".into());
        job.insert_str(
            0,
            &format!("stty echo onlcr rows {rows} cols {columns}\nexport TERM={kind}\n"),
        );
    }
    tree.text("stile/job", job.as_bytes());
    let archive = tree.write()?;
    Ok(Some(Files {
        archive,
        parameters,
    }))
}
