//! `stile run` and `stile shell`.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::Input;

use crate::arch::Arch;
use crate::console::Console;
use crate::disk::{self, Disk};
use crate::elf;
use crate::guest::{self, HOST_FOLDER};
use crate::image::{self, Image};
use crate::initramfs::Initramfs;
use crate::kernel_image::Kernel;
use crate::network;
use crate::options::{CountFormat, RunOptions};
use crate::packages;
use crate::policies;
use crate::project::{Project, progress};
use crate::qemu::{self, Machine};
use crate::share::{self, Share};
use crate::terminal;
use crate::toolchain;

/// The exit status if a program cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit status if a program is not found.
const NOT_FOUND: u8 = 127;

/// The tour: a run without a program if there is no terminal.
const TOUR: &str = include_str!("tour.sh");

/// Runs a program; without one a shell, or the tour if there is no terminal.
pub fn run(project: &Project, options: &RunOptions) -> Result<u8> {
    let [stdin, stdout, _] = terminal::terminals();
    let unnamed = if stdin && stdout {
        Unnamed::Shell
    } else {
        Unnamed::Tour
    };
    let unnamed = match &options.root {
        Some(_) => Unnamed::Shell,
        None => unnamed,
    };
    start(project, options, unnamed)
}

/// Runs a program; without one an interactive shell, which reads its commands from standard input.
pub fn shell(project: &Project, options: &RunOptions) -> Result<u8> {
    start(project, options, Unnamed::Shell)
}

/// The program that runs if none is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unnamed {
    Shell,
    Tour,
}

/// The command to run: the first word names a program in the guest.
struct Plan {
    arch: Arch,
    arguments: Vec<Vec<u8>>,
    /// Whether it is the tour, which is part of this command.
    tour: bool,
    /// Whether it is a file of the host, which may need nothing else.
    from_host: bool,
}

fn start(project: &Project, options: &RunOptions, unnamed: Unnamed) -> Result<u8> {
    let [stdin, stdout, stderr] = terminal::terminals();
    let interactive = stdin && stdout;
    options
        .set
        .iter()
        .try_for_each(|setting| policies::check(setting))?;
    let kernel = Kernel::from_option(&options.on);
    if !kernel.is_stile() && (options.count.is_some() || options.trace) {
        bail!("--count and --trace are Stile's: {kernel} has neither");
    }
    let image = options.image.as_deref();
    let image = image
        .map(|text| Image::open(text, options.arch))
        .transpose()?;
    let planned = match &image {
        Some(image) => Ok(plan_image(options, image)?),
        None => plan(options, unnamed),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(refusal) => {
            tell!("stile: {}", refusal.reason);
            return Ok(refusal.status);
        }
    };
    let mut machine = machine(options, &kernel, plan.arch)?;
    let others = machine.disks.len();
    let disks = |image: &Image| image.disks(project, options.keep.as_deref(), options.dry_run);
    let disks = image.as_ref().map(disks).transpose()?;
    machine
        .disks
        .extend(disks.iter().flat_map(|disks| disks.disks.clone()));
    let root = options.root.as_ref().and(machine.disks.first());
    if options.dry_run {
        show!(
            "{}",
            qemu::shell_line(&guest::command_line(project, &machine))
        );
        return Ok(0);
    }

    let mut tree = guest::bare_tree(project, plan.arch)?;
    // An image has programs of its own; PID 1 alone may need busybox's.
    if image.is_none() || options.net || !kernel.is_stile() {
        match tree.add_busybox() {
            Err(error) if plan.from_host => {
                progress(&format!("the guest has no busybox: {error:#}"))
            }
            other => other?,
        }
    }
    if let (Some(image), Some(disks)) = (&image, &disks) {
        image.fill(&mut tree, others, disks)?;
    }
    fill(project, options, &kernel, &plan, &machine, &mut tree)?;
    let on_disk = root.is_some() || image.is_some();
    let unknown = |name: &String| !on_disk && !tree.has_program(name);
    if let Some(name) = bare_name(options).filter(unknown) {
        tell!("stile: {}", packages::missing(project, plan.arch, &name));
        return Ok(NOT_FOUND);
    }
    let mut job = guest::job(plan.arguments);
    if let Some(root) = root {
        let how = if root.is_read_only() { "ro" } else { "rw" };
        tree.text(wire::ROOT_PATH, how.as_bytes());
        job.directory = String::new();
    }
    if let Some(image) = &image {
        let config = image.config();
        job.environment = config.environment();
        job.directory = config.directory();
        job.user = Some(config.user());
    }
    job.trace = options.trace;
    let toured = plan.tour && kernel.is_stile();
    let count = options.count.or(toured.then_some(CountFormat::Table));
    job.count = count.is_some();
    if interactive {
        let (rows, columns) = terminal::size();
        job.input = Input::Terminal {
            rows,
            columns,
            stderr,
        };
        let kind = std::env::var("TERM").unwrap_or_else(|_| "vt100".into());
        job.environment.push(format!("TERM={kind}").into_bytes());
    } else if !plan.tour {
        job.input = input(options, &mut tree)?;
    }

    let name = String::from_utf8_lossy(&job.arguments[0]).into_owned();
    let reads = job.input != Input::Empty && !matches!(job.input, Input::File(_));
    let session = guest::boot(project, &machine, &mut tree, &[job], options.log.as_deref())?;
    if let Some(port) = machine.debugger {
        explain_debugger(project, plan.arch, port);
    }
    let deadline = options
        .timeout
        .map(Duration::try_from_secs_f64)
        .transpose()
        .context("--timeout")?;
    let console = Console {
        interactive,
        count,
        deadline: deadline.map(|time| Instant::now() + time),
        stop: image
            .map(|image| image.config().stop_signal())
            .transpose()?,
        awaits_end: false,
    };
    console.drive(session, &name, reads)
}

/// Why a program cannot be run, and the exit status for that.
struct Refusal {
    status: u8,
    reason: String,
}

fn plan(options: &RunOptions, unnamed: Unnamed) -> Result<Plan, Refusal> {
    let default = options.arch.unwrap_or(Arch::Arm64);
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let Some((program, rest)) = options.program.split_first() else {
        let arguments = match unnamed {
            Unnamed::Shell => words(&["sh", "-il"]),
            Unnamed::Tour => words(&["sh", "/stile/tour.sh"]),
        };
        let tour = unnamed == Unnamed::Tour;
        return Ok(Plan {
            arch: default,
            arguments,
            tour,
            from_host: false,
        });
    };
    let (mut arch, mut name) = (default, program.as_bytes().to_vec());
    let from_host = options.root.is_none() && program.as_bytes().contains(&b'/');
    if from_host {
        arch = host_program(Path::new(program), options.arch)?;
        name = guest_path(program).into_bytes();
    }
    let rest = rest.iter().map(|word| word.as_bytes().to_vec());
    Ok(Plan {
        arch,
        arguments: std::iter::once(name).chain(rest).collect(),
        tour: false,
        from_host,
    })
}

/// The command of an image, with the user's words in place of the image's.
fn plan_image(options: &RunOptions, image: &Image) -> Result<Plan> {
    let words = options.program.iter().map(|word| word.as_bytes().to_vec());
    let entrypoint = options.entrypoint.as_ref().map(|word| word.as_bytes());
    Ok(Plan {
        arch: image.arch,
        arguments: image.command(entrypoint, &words.collect::<Vec<_>>())?,
        tour: false,
        from_host: false,
    })
}

/// The name of the program to run, if it is one of the guest's.
fn bare_name(options: &RunOptions) -> Option<String> {
    let program = options.program.first()?;
    let name = program.to_string_lossy().into_owned();
    (!name.contains('/')).then_some(name)
}

/// The architecture to run a host file on.
fn host_program(path: &Path, asked: Option<Arch>) -> Result<Arch, Refusal> {
    let refuse = |status, reason: &str| Refusal {
        status,
        reason: format!("{}: {reason}", path.display()),
    };
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(refuse(NOT_FOUND, "not found"));
        }
        Err(error) => return Err(refuse(NOT_EXECUTABLE, &error.to_string())),
        Ok(metadata) => metadata,
    };
    if metadata.is_dir() {
        return Err(refuse(NOT_EXECUTABLE, "a folder"));
    }
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o111 == 0 {
        return Err(refuse(NOT_EXECUTABLE, "not executable: its mode lacks x"));
    }
    match elf::inspect(path) {
        Err(error) => Err(refuse(NOT_EXECUTABLE, &format!("{error:#}"))),
        Ok(elf::Kind::Script(_)) => Ok(asked.unwrap_or(Arch::Arm64)),
        Ok(elf::Kind::Elf(program)) if asked.is_some_and(|asked| asked != program.arch) => {
            Err(refuse(
                NOT_EXECUTABLE,
                &format!("a program for {}", program.debian()),
            ))
        }
        Ok(elf::Kind::Elf(program)) => Ok(program.arch),
    }
}

/// The path of a host file in the guest.
fn guest_path(host: &OsStr) -> String {
    let name = Path::new(host).file_name().unwrap_or(host);
    format!("{HOST_FOLDER}/{}", name.to_string_lossy())
}

/// The machine that the options describe.
pub fn machine<'a>(options: &'a RunOptions, kernel: &'a Kernel, arch: Arch) -> Result<Machine<'a>> {
    let mut words = Vec::new();
    for line in &options.qemu_opts {
        words.extend(qemu::split_words(line)?);
    }
    if options.net {
        words.extend(network::words(&options.port));
    }
    Ok(Machine {
        arch,
        kernel,
        cpu: options.cpu.as_deref(),
        smp: options.smp,
        memory: &options.memory,
        icount: options.icount,
        as_shipped: false,
        accel: options.accel,
        debugger: options.gdb.then(debugger_port).transpose()?,
        disks: options
            .root
            .iter()
            .chain(&options.disk)
            .map(|text| Disk::parse(text))
            .collect::<Result<_>>()?,
        shares: Share::parse_all(&options.share)?,
        append: options.set.iter().chain(&options.append).cloned().collect(),
        options: words,
    })
}

/// Adds the files that the options and the program need to the tree.
fn fill(
    project: &Project,
    options: &RunOptions,
    kernel: &Kernel,
    plan: &Plan,
    machine: &Machine,
    tree: &mut Initramfs,
) -> Result<()> {
    if plan.tour {
        tree.text("stile/tour.sh", TOUR.as_bytes());
    }
    // The programs of a root on a disk exist already.
    let on_disk = options.root.is_some() || options.image.is_some();
    let program = options.program.first().filter(|_| !on_disk);
    match program {
        Some(program) if program.as_bytes().contains(&b'/') => {
            tree.file(&guest_path(program), Path::new(program))?
        }
        Some(program) => named_program(project, plan.arch, &program.to_string_lossy(), tree)?,
        None => {}
    }
    if !options.package.is_empty() {
        packages::install(project, plan.arch, &options.package, tree)?;
    }
    let mut modules: Vec<&str> = Vec::new();
    if options.net {
        network::fill(tree);
        modules.extend(network::LINUX_MODULES);
    }
    if options.image.is_some() {
        modules.extend(disk::LINUX_MODULES);
        modules.push(image::LINUX_MODULE);
    }
    if !machine.shares.is_empty() {
        share::fill(&machine.shares, tree);
        modules.extend(share::LINUX_MODULES);
    }
    if let Kernel::Linux(version) = kernel
        && !modules.is_empty()
    {
        // Some are needed for several of these.
        let mut named = std::collections::BTreeSet::new();
        modules.retain(|name| named.insert(*name));
        let files = packages::linux_modules(project, plan.arch, version, &modules)?;
        tree.modules(&files)?;
    }
    for copy in &options.copy {
        let (host, guest) = match copy.split_once(':') {
            Some((host, guest)) => (host, guest.to_owned()),
            None => (
                copy.as_str(),
                guest_path(copy.trim_end_matches('/').as_ref()),
            ),
        };
        if !guest.starts_with('/') {
            bail!("--copy {copy}: the guest's path must start with a slash");
        }
        tree.copy(&guest, Path::new(host))
            .with_context(|| format!("--copy {copy}"))?;
    }
    Ok(())
}

/// Adds a program from a Debian package that is downloaded only if the program is named.
pub fn named_program(
    project: &Project,
    arch: Arch,
    name: &str,
    tree: &mut Initramfs,
) -> Result<()> {
    if !packages::is_lmbench(name) {
        return Ok(());
    }
    let folder = packages::lmbench(project, arch)?;
    for needed in [name, "hello"] {
        let file = folder.join(needed);
        if file.is_file() {
            tree.file(&format!("usr/bin/{needed}"), &file)?;
        }
    }
    Ok(())
}

/// How standard input reaches the program. If time is counted in instructions, all of it must be
/// there from the start.
fn input(options: &RunOptions, tree: &mut Initramfs) -> Result<Input> {
    if !options.icount || terminal::terminals()[0] {
        return Ok(Input::Channel);
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(Input::Empty);
    }
    tree.text("stile/stdin", &bytes);
    Ok(Input::File("/stile/stdin".into()))
}

/// The port that debuggers try first, or another one if that is in use.
fn debugger_port() -> Result<u16> {
    const USUAL: u16 = 1234;
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let free = bind(USUAL).or_else(|_| bind(0));
    Ok(free.context("no port for a debugger")?.local_addr()?.port())
}

fn explain_debugger(project: &Project, arch: Arch, port: u16) {
    let symbols = toolchain::kernel_place(project, arch, &[]);
    tell!(
        "stile: the machine waits for a debugger, and begins with its command 'continue':\n  \
         gdb-multiarch -cd {} {} -ex 'target remote localhost:{port}'",
        project.root.display(),
        symbols.display(),
    );
}
