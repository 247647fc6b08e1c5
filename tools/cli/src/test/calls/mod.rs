//! What calls what in the shipped kernel, as its code says it. No function calls itself, directly
//! or by way of others, unless `tests/recursion.txt` has the bound; and no frame takes too much of
//! a stack. Calls of an address in a register are not followed: those by way of `dyn` and of
//! function pointers.

mod arm64;
mod graph;
mod image;
mod list;
mod riscv64;
mod step;

use std::fs;

use anyhow::{Context, Result};

use self::graph::Calls;
use self::image::Image;
use super::Report;
use crate::arch::Arch;
use crate::project::Project;
use crate::toolchain;

/// The list of what may call itself.
const LIST: &str = "tests/recursion.txt";

/// Checks the calls of an architecture's kernel.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let name = format!("calls/{}", arch.debian());
    // The list is that of the shipped kernel: another one's functions are inlined otherwise.
    if !report.wants(&name) || project.is_checked() {
        return Ok(());
    }
    let place = toolchain::kernel(project, arch, &[])?;
    let kernel = fs::read(&place).with_context(|| place.display().to_string())?;
    let calls = Calls::of(&Image::parse(&kernel)?, arch)?;
    let list = fs::read_to_string(project.root.join(LIST)).context(LIST)?;
    let mut complaints = list::complaints(&list::parse(&list, arch)?, &calls);
    complaints.extend(calls.large_frames());
    let (seen, unseen) = (calls.graph.edge_count(), calls.unseen);
    show!("{name}: {seen} pairs of caller and callee, {unseen} calls by a register not followed");
    match complaints.is_empty() {
        true => report.passed(1),
        false => report.failed(&name, &complaints.join("\n")),
    }
    Ok(())
}
