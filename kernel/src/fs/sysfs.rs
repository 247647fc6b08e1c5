//! sysfs, as far as C libraries and language runtimes look.

use super::entry::Entry;
use super::generated::Node::{Directory, File};
use super::generated::{self, Fixed, Node, Text};
use crate::errno::Result;
use crate::mm::block;
use crate::{arch, put};
use alloc::sync::Arc;

const ROOT: &[(&str, Node)] = &[
    ("class", Directory(&[])),
    (
        "devices",
        Directory(&[("system", Directory(&[("cpu", Directory(CPU))]))]),
    ),
    ("fs", Directory(&[("cgroup", Directory(&[]))])),
    (
        "kernel",
        Directory(&[(
            "mm",
            Directory(&[("transparent_hugepage", Directory(HUGE))]),
        )]),
    ),
];

const CPU: &[(&str, Node)] = &[
    (
        "kernel_max",
        File(|text| put!(text, "{}\n", arch::MAX_CPUS - 1)),
    ),
    ("online", File(cpus)),
    ("possible", File(cpus)),
    ("present", File(cpus)),
];

const HUGE: &[(&str, Node)] = &[("enabled", File(huge))];

/// The policy for huge pages in brackets, among all.
fn huge(text: &mut Text) {
    for (place, (name, policy)) in block::POLICIES.iter().enumerate() {
        let gap = if place == 0 { "" } else { " " };
        if *policy == block::policy() {
            put!(text, "{gap}[{name}]");
        } else {
            put!(text, "{gap}{name}");
        }
    }
    put!(text, "\n");
}

fn cpus(text: &mut Text) {
    match arch::cpu::count() - 1 {
        0 => put!(text, "0\n"),
        last => put!(text, "0-{last}\n"),
    }
}

/// The root of the file system.
pub fn root() -> Result<Arc<Entry>> {
    generated::root(Fixed::new(Directory(ROOT), super::new_device(), 1))
}
