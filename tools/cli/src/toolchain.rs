//! Rust: targets added where they are missing, and what is built for guests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::project::{Project, find_program, output, progress};

/// Adds a target to the toolchain where it is missing.
pub fn ensure_target(project: &Project, target: &str) -> Result<()> {
    let sysroot = output(
        Command::new("rustc").args(["--print", "sysroot"]),
        "asking rustc for its libraries",
    )?;
    if PathBuf::from(sysroot.trim())
        .join("lib/rustlib")
        .join(target)
        .is_dir()
    {
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

/// Builds a program of `programs/` for guests: the file.
pub fn program(project: &Project, arch: Arch, name: &str) -> Result<PathBuf> {
    let target = arch.program_target()?;
    ensure_target(project, target)?;
    let manifest = format!("programs/{name}/Cargo.toml");
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
    cargo.args(["--manifest-path", &manifest]);
    output(&mut cargo, &format!("building programs/{name}"))?;
    Ok(project.target.join(target).join("program").join(name))
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
    output(&mut go, &format!("building {}", source.display()))?;
    Ok(built)
}

/// Where the kernel's ELF file is built.
pub fn kernel_place(project: &Project, arch: Arch) -> PathBuf {
    project
        .target
        .join(arch.kernel_target())
        .join("kernel/stile")
}

/// Builds the kernel with these Cargo features: its ELF file.
pub fn kernel(project: &Project, arch: Arch, features: &[&str]) -> Result<PathBuf> {
    let target = arch.kernel_target();
    ensure_target(project, target)?;
    let mut cargo = project.cargo(&[
        "build",
        "--quiet",
        "--profile",
        "kernel",
        "--package",
        "kernel",
        "--target",
        target,
    ]);
    if !features.is_empty() {
        cargo.arg("--features").arg(features.join(","));
    }
    output(&mut cargo, "building the kernel")?;
    let built = kernel_place(project, arch);
    if features.is_empty() {
        return Ok(built);
    }
    let kept = built.with_file_name(format!("stile-{}", features.join("-")));
    std::fs::copy(&built, &kept).with_context(|| built.display().to_string())?;
    Ok(kept)
}
