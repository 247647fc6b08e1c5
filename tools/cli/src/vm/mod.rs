//! `stile vm`: a machine with a hypervisor, and in it our VMM (`programs/vmm`) with a guest.

pub mod system;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use wire::Input;

use crate::arch::Arch;
use crate::bench::counted::{self, Counted};
use crate::console::Console;
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel_image::Kernel;
use crate::options::CountFormat;
use crate::policies;
use crate::project::Project;
use crate::qemu::{Accel, Machine};
use crate::session::Folder;
use crate::terminal;
use crate::toolchain;
use system::System;

/// A CPU with VHE, which a hypervisor needs, that Linux 6.1 also supports.
pub const CPU: &str = "neoverse-n1";
/// QEMU's options to start a kernel where it can be a hypervisor.
pub const HYPERVISOR: [&str; 2] = ["-machine", "virtualization=on"];
/// The memory of the host besides the guest's, in MiB.
const HOST_MEMORY: u64 = 1024;
/// The default guest.
const GUEST: &str = "linux-6.12";
/// The tag of a guest's phase 0; the others follow (`programs/vmm`).
const PHASES: u32 = 256;
/// The folder of the VMM and the guest in the host.
const FOLDER: &str = "/vm";

/// Options of `vm`.
#[derive(Args, Debug)]
pub struct VmOptions {
    /// Number of virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub vcpus: u32,
    /// Memory of the guest
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = mebibytes)]
    pub memory: u64,
    /// The guest: linux-6.12, linux-6.1 (Debian's), stile, bench (which measures its exits), or a
    /// file: a flat image, entered at its first byte, or a Linux Image
    #[arg(long, value_name = "KERNEL", default_value = GUEST)]
    pub guest_kernel: String,
    /// The guest's initial archive; Debian's kernels and Stile have one with busybox
    #[arg(long, value_name = "FILE")]
    pub guest_initrd: Option<PathBuf>,
    /// Parameters for the guest's command line
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub guest_append: Vec<String>,
    /// Put a Debian package and its dependencies, or a program of lmbench, into the guest with
    /// busybox
    #[arg(long, value_name = "NAME")]
    pub guest_package: Vec<String>,
    /// Put the source of a Debian package, as its authors released it, into that guest's /usr/src
    #[arg(long, value_name = "NAME")]
    pub guest_source: Vec<String>,
    /// A disk of the guest: the present content of this file, which the guest's writes do not
    /// change
    #[arg(long, value_name = "FILE")]
    pub disk: Vec<PathBuf>,
    /// The kernel that runs the guest: stile, linux-6.12, linux-6.1 (Debian's), or a file
    #[arg(long, value_name = "KERNEL", default_value = "stile")]
    pub on: String,
    /// Number of CPUs below the guest, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub smp: u32,
    /// Choose a policy of Stile; an unknown one lists all policies
    #[arg(long, value_name = "POLICY=VALUE")]
    pub set: Vec<String>,
    /// Parameters for the command line of the kernel that runs the guest
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// When the guest is off, print the crossings it made on stderr
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    pub count: Option<CountFormat>,
    /// When the guest is off, print on stderr the exits that the kernel that runs it has counted
    #[arg(long)]
    pub exits: bool,
    /// When the guest is off, print on stderr how many instructions the kernel that runs it
    /// executed meanwhile, and how many the guest's own kernel
    #[arg(long, requires = "icount")]
    pub instructions: bool,
    /// Count instructions as the machine's time, so that two runs print the same
    #[arg(long)]
    pub icount: bool,
    /// End the machine after this time, with status 124
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Write the kernel's log to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// A program of the guest with busybox, and its arguments; by default a shell, or a short
    /// session if there is no terminal
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Parses a size that is a whole number of MiB; returns that number.
fn mebibytes(text: &str) -> Result<u64, String> {
    let parse = || {
        let (number, factor) = match text.strip_suffix('G') {
            Some(number) => (number, 1024),
            None => (text.strip_suffix('M')?, 1),
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    };
    let fits = |size: &u64| *size >= 2 && size.is_multiple_of(2);
    parse()
        .filter(fits)
        .ok_or_else(|| "a size is an even number of M, or a number of G".into())
}

/// Boots a kernel with the VMM and the guest; returns the status that the guest left when it
/// powered off.
pub fn vm(project: &Project, options: &VmOptions) -> Result<u8> {
    options
        .set
        .iter()
        .try_for_each(|setting| policies::check(setting))?;
    let kernel = Kernel::from_option(&options.on);
    if !kernel.is_stile() && options.count.is_some() {
        bail!("--count is Stile's: {kernel} does not count");
    }
    let memory = format!("{}M", HOST_MEMORY + options.memory);
    let folder = Folder::new(project.cache.join("run"))?;
    let counts = options.instructions.then(|| folder.file("counts"));
    let mut machine_options = HYPERVISOR.map(String::from).to_vec();
    if let Some(counts) = &counts {
        let plugin = counted::plugin(project)?;
        let plugin = format!(
            "file={},out={},levels=on",
            plugin.display(),
            counts.display()
        );
        machine_options.extend(["-plugin".into(), plugin]);
    }
    let machine = Machine {
        arch: Arch::Arm64,
        kernel: &kernel,
        cpu: Some(CPU),
        smp: options.smp,
        memory: &memory,
        icount: options.icount,
        as_shipped: false,
        accel: Accel::Tcg,
        debugger: None,
        disks: Vec::new(),
        shares: Vec::new(),
        append: options.set.iter().chain(&options.append).cloned().collect(),
        options: machine_options,
    };
    let mut tree = guest::bare_tree(project, Arch::Arm64)?;
    let [stdin, stdout, stderr] = terminal::terminals();
    let interactive = stdin && stdout;
    let mut job = guest::job(vmm_command(project, options, interactive, &mut tree)?);
    job.count = options.count.is_some();
    // The kernel's own work after its start is not counted.
    job.settle = options.instructions;
    job.input = match interactive {
        true => {
            let (rows, columns) = terminal::size();
            Input::Terminal {
                rows,
                columns,
                stderr,
            }
        }
        false if options.icount => Input::Empty,
        false => Input::Channel,
    };
    let reads = job.input != Input::Empty;
    let session = guest::boot(project, &machine, &mut tree, &[job], options.log.as_deref())?;
    let limit = options
        .timeout
        .map(Duration::try_from_secs_f64)
        .transpose()
        .context("--timeout")?;
    let console = Console {
        interactive,
        count: options.count,
        deadline: limit.map(|time| Instant::now() + time),
        stop: None,
        awaits_end: counts.is_some(),
    };
    let status = console.drive(session, "vmm", reads)?;
    if let Some(counts) = counts {
        print_instructions(&Counted::read(&counts)?);
    }
    Ok(status)
}

/// Prints the instructions executed while the VMM ran, at EL2 by the kernel below and at EL1 by the
/// guest's: the totals, and those of the phases that the guest marked.
fn print_instructions(counted: &Counted) {
    let kinds = [
        ("host_instructions", "instructions.el2"),
        ("guest_instructions", "instructions.el1"),
    ];
    let parts = || counted.tags().filter(|tag| *tag != 0);
    for (name, kind) in kinds {
        let sum: u64 = parts().map(|tag| counted.phase(tag, &[kind])).sum();
        tell!("{name} {sum}");
        for tag in parts() {
            if let Some(phase) = tag.checked_sub(PHASES) {
                tell!("phase {phase} {name} {}", counted.phase(tag, &[kind]));
            }
        }
    }
}

/// Adds the VMM and the files of its guest to the host's tree; returns the VMM's command line.
fn vmm_command(
    project: &Project,
    options: &VmOptions,
    interactive: bool,
    tree: &mut Initramfs,
) -> Result<Vec<String>> {
    let system = System::from_option(&options.guest_kernel);
    let mut words = bare_vmm(project, tree, &system.image(project)?, options.vcpus)?;
    words.extend(["--memory".into(), format!("{}M", options.memory)]);
    if options.icount {
        words.push("--pin".into());
    }
    if options.exits {
        words.push("--stats".into());
    }
    let mut parameters = options.guest_append.clone();
    let mut initrd = options.guest_initrd.as_deref().map(read).transpose()?;
    if initrd.is_none()
        && let Some(files) = system::files(
            project,
            &system,
            &options.program,
            &options.guest_package,
            &options.guest_source,
            interactive,
        )?
    {
        // Its console is the virtio console; the other one carries its log.
        words.push("--log".into());
        if !interactive {
            words.push("--no-reboot".into());
        }
        parameters.insert(0, files.parameters.into());
        initrd = Some(files.archive);
    }
    if let Some(initrd) = initrd {
        tree.text(&place("initrd"), &initrd);
        words.extend(["--initrd".into(), place("initrd")]);
    }
    for (at, disk) in options.disk.iter().enumerate() {
        let name = place(&format!("disk{at}"));
        tree.text(&name, &read(disk)?);
        words.extend(["--disk".into(), name]);
    }
    if !parameters.is_empty() {
        words.extend(["--append".into(), parameters.join(" ")]);
    }
    words.push(place("kernel"));
    Ok(words)
}

/// The VMM's arguments for the guest that measures, with this many virtual CPUs.
pub fn measuring_vmm(
    project: &Project,
    tree: &mut Initramfs,
    vcpus: u32,
    sparse: bool,
) -> Result<Vec<String>> {
    let mut words = bare_vmm(project, tree, &system::bench(project)?, vcpus)?;
    words.extend(sparse.then(|| "--sparse".into()));
    words.extend(["--pin".into(), place("kernel")]);
    Ok(words)
}

/// Adds the VMM and a Linux guest to a tree for scripts to run: `vmm` in `PATH`, and in `/vm` the
/// guest's kernel, archive and parameters.
pub fn add_guest(project: &Project, tree: &mut Initramfs) -> Result<()> {
    let system = System::from_option(GUEST);
    bare_vmm(project, tree, &system.image(project)?, 1)?;
    tree.link("usr/bin/vmm", &place("vmm"));
    let files = system::files(project, &system, &[], &[], &[], false)?;
    let files = files.with_context(|| format!("{GUEST} has no files"))?;
    tree.text(&place("initrd"), &files.archive);
    tree.text(&place("parameters"), files.parameters.as_bytes());
    Ok(())
}

fn place(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// The VMM and the guest's kernel, and the arguments that every command line begins with.
fn bare_vmm(
    project: &Project,
    tree: &mut Initramfs,
    kernel: &Path,
    vcpus: u32,
) -> Result<Vec<String>> {
    tree.file(
        &place("vmm"),
        &toolchain::program(project, Arch::Arm64, "vmm")?,
    )?;
    tree.text(&place("kernel"), &read(kernel)?);
    Ok(vec![place("vmm"), "--vcpus".into(), vcpus.to_string()])
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}
