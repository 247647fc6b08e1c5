//! Programs of ours that need no libc.

use std::path::PathBuf;

use anyhow::Result;

use crate::arch::Arch;
use crate::project::{Project, output};
use crate::toolchain;

/// Builds `programs/crossings`: the file.
pub fn crossings(project: &Project, arch: Arch) -> Result<PathBuf> {
    let target = arch.kernel_target();
    toolchain::ensure_target(project, target)?;
    let mut cargo = project.cargo(&[
        "build",
        "--quiet",
        "--profile",
        "program",
        "--target",
        target,
    ]);
    cargo.args(["--package", "crossings-program"]);
    output(&mut cargo, "building programs/crossings")?;
    Ok(project.target.join(target).join("program/crossings"))
}
