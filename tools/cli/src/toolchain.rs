//! Rust: adds missing targets, and builds programs for guests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::debian::Debian;
use crate::packages;
use crate::project::{
    Project, find_program, output, output_and_warnings, progress, write_if_changed,
};

/// Rust's target for 32-bit Arm programs.
pub const COMPAT_TARGET: &str = "armv7-unknown-linux-gnueabihf";

/// Adds a target to the toolchain if it is missing.
pub fn ensure_target(project: &Project, target: &str) -> Result<()> {
    if sysroot()?.join("lib/rustlib").join(target).is_dir() {
        return Ok(());
    }
    if project.offline {
        bail!("Rust's target {target} is missing, and --offline forbids downloading it");
    }
    if find_program("rustup").is_none() {
        bail!("Rust's target {target} is missing, and this machine has no rustup to add it");
    }
    progress(&format!("adding Rust's target {target}"));
    output(
        Command::new("rustup").args(["target", "add", target]),
        "adding a target",
    )
    .map(drop)
}

/// The folder with the compiler's libraries.
fn sysroot() -> Result<&'static Path> {
    static SYSROOT: OnceLock<PathBuf> = OnceLock::new();
    if SYSROOT.get().is_none() {
        let said = output(
            Command::new("rustc").args(["--print", "sysroot"]),
            "asking rustc for its libraries",
        )?;
        let _ = SYSROOT.set(said.trim().into());
    }
    let known = SYSROOT.get().map(PathBuf::as_path);
    known.context("rustc said nothing")
}

/// Runs the command that creates `built`, unless it was this process's last one to do so: then one
/// measurement or test uses the same program throughout, even if its source changes meanwhile.
pub fn build(command: &mut Command, what: &str, built: PathBuf) -> Result<PathBuf> {
    static LAST: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let words = format!("{command:?}");
    // One at a time, so that a file is not written while others use it.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.get(&built) != Some(&words) {
        output_and_warnings(command, what)?;
        last.insert(built.clone(), words);
    }
    Ok(built)
}

/// Builds a program of `programs/` for guests; returns the file.
pub fn program(project: &Project, arch: Arch, name: &str) -> Result<PathBuf> {
    let target = arch.program_target();
    let mut cargo = cargo_for(project, target, name)?;
    if arch == Arch::Riscv64 {
        let (debian, folder) = (arch.debian(), arch.library_folder());
        static_glibc(project, debian, folder, target, &mut cargo)?;
    }
    build_program(project, target, name, "", cargo)
}

/// Builds a program of `programs/` for 32-bit Arm, which arm64 machines run, too; returns the file.
pub fn compat_program(project: &Project, name: &str) -> Result<PathBuf> {
    let mut cargo = cargo_for(project, COMPAT_TARGET, name)?;
    let folder = "arm-linux-gnueabihf";
    static_glibc(project, "armhf", folder, COMPAT_TARGET, &mut cargo)?;
    build_program(project, COMPAT_TARGET, name, " for 32 bits", cargo)
}

/// Builds a program of `programs/` that runs without an operating system; returns the ELF file.
pub fn bare_program(project: &Project, arch: Arch, name: &str) -> Result<PathBuf> {
    let target = arch.kernel_target();
    let cargo = cargo_for(project, target, name)?;
    build_program(project, target, name, "", cargo)
}

/// A cargo command that builds a program of `programs/` for `target`, which is installed if
/// necessary.
fn cargo_for(project: &Project, target: &str, name: &str) -> Result<Command> {
    ensure_target(project, target)?;
    let mut cargo = project.cargo(&[
        "build",
        "--quiet",
        "--profile",
        "program",
        "--target",
        target,
        "--bin",
        name,
    ]);
    cargo.args(["--manifest-path", &format!("programs/{name}/Cargo.toml")]);
    Ok(cargo)
}

fn build_program(
    project: &Project,
    target: &str,
    name: &str,
    which: &str,
    mut cargo: Command,
) -> Result<PathBuf> {
    let built = project.target.join(target).join("program").join(name);
    let what = format!("building programs/{name}{which}");
    build(&mut cargo, &what, built)
}

/// Makes cargo link a program statically with Debian's C library, for an architecture for which
/// Rust has no musl. `debian` is Debian's name of it, `folder` its library folder below `/usr/lib`,
/// `target` Rust's name.
fn static_glibc(
    project: &Project,
    debian: &str,
    folder: &str,
    target: &str,
    cargo: &mut Command,
) -> Result<()> {
    let debian = Debian::new(project, packages::SUITE, debian);
    let library = debian.package("libc6-dev")?.join("usr/lib").join(folder);
    let compiler = debian
        .package("libgcc-14-dev")?
        .join("usr/lib/gcc")
        .join(folder)
        .join("14");
    let mut words = vec![
        "linker-flavor=ld.lld".into(),
        "target-feature=+crt-static".into(),
    ];
    words.push("link-self-contained=no".into());
    // If the library can start a static program at any address, the program is
    // position-independent.
    let movable = library.join("rcrt1.o").is_file();
    let start = if movable {
        words.extend(["link-arg=-pie", "link-arg=--no-dynamic-linker"].map(String::from));
        "rcrt1.o"
    } else {
        words.push("relocation-model=static".into());
        "crt1.o"
    };
    words
        .extend([start, "crti.o"].map(|file| format!("link-arg={}", library.join(file).display())));
    words.extend([&library, &compiler].map(|folder| format!("link-arg=-L{}", folder.display())));
    words.push(format!("link-arg={}", library.join("crtn.o").display()));
    let flags: Vec<String> = words.iter().map(|word| format!("-C{word}")).collect();
    let name = target.to_uppercase().replace('-', "_");
    cargo.env(format!("CARGO_TARGET_{name}_LINKER"), "rust-lld");
    cargo.env(format!("CARGO_TARGET_{name}_RUSTFLAGS"), flags.join(" "));
    Ok(())
}

/// Builds a Go program of one file for guests, statically linked.
pub fn go_program(project: &Project, arch: Arch, source: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a Go source has a name")?;
    let built = project.target.join("go").join(arch.debian()).join(name);
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-o"])
        .arg(&built)
        .arg(source);
    go.env("GOOS", "linux")
        .env("GOARCH", arch.debian())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod");
    go.env("GOTOOLCHAIN", "local")
        .env("GOCACHE", project.cache.join("go"));
    build(&mut go, &format!("building {}", source.display()), built)
}

/// The path of the ELF file of the kernel with these Cargo features.
pub fn kernel_place(project: &Project, arch: Arch, features: &[&str]) -> PathBuf {
    let name = [&["stile"], features].concat().join("-");
    project
        .target
        .join(arch.kernel_target())
        .join(project.kernel_profile)
        .join(name + ".elf")
}

/// Builds the kernel with these Cargo features, once per process; returns its ELF file. It is a
/// copy, since cargo uses one path for all features.
pub fn kernel(project: &Project, arch: Arch, features: &[&str]) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let kept = kernel_place(project, arch, features);
    let mut known = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if known.contains(&kept) {
        return Ok(kept);
    }
    let target = arch.kernel_target();
    ensure_target(project, target)?;
    let mut cargo = project.cargo(&[
        "build",
        "--quiet",
        "--profile",
        project.kernel_profile,
        "--package",
        "kernel",
        "--target",
        target,
    ]);
    if !features.is_empty() {
        cargo.arg("--features").arg(features.join(","));
    }
    let with = match features.is_empty() {
        true => String::new(),
        false => format!(" with {}", features.join(", ")),
    };
    // Another process may build a kernel with other features.
    let _alone = project.lock_target()?;
    let what = format!("building the kernel for {}{with}", arch.debian());
    output_and_warnings(&mut cargo, &what)?;
    let built = kept.with_file_name("stile");
    let image = fs::read(&built).with_context(|| built.display().to_string())?;
    write_if_changed(&kept, &image)?;
    known.insert(kept.clone());
    Ok(kept)
}
