//! sysfs: the files that C libraries, language runtimes and udev read.

mod block;
mod devices;
mod net;

use super::dentry::Dentry;
use super::proc::memory::list_bits;
use super::proc::{system, zones};
use super::seq_file::Node::{Directory, Each, File, Link, Of, Setting, SettingOf};
use super::seq_file::{self, Family, Fixed, Node, Text, Tree};
use crate::errno::{Errno, Result};
use crate::mm::huge_page;
use crate::net::interface;
use crate::{arch, put};
use alloc::sync::Arc;

const ROOT: &[(&str, Node)] = &[
    ("block", Each(&[], &block::DISKS)),
    ("bus", Directory(&[])),
    ("class", Directory(devices::CLASSES)),
    (
        "dev",
        Directory(&[
            ("block", Each(&[], &block::BY_NUMBER)),
            ("char", Directory(devices::BY_NUMBER)),
        ]),
    ),
    (
        "devices",
        Directory(&[
            (
                "system",
                Directory(&[
                    (
                        "clocksource",
                        Directory(&[("clocksource0", Directory(CLOCKSOURCE))]),
                    ),
                    ("cpu", Each(CPU, &CPUS)),
                    ("node", Directory(NODES)),
                ]),
            ),
            ("virtual", Directory(devices::VIRTUAL)),
        ]),
    ),
    ("fs", Directory(&[("cgroup", Directory(&[]))])),
    (
        "kernel",
        Directory(&[(
            "mm",
            Directory(&[("transparent_hugepage", Directory(HUGE))]),
        )]),
    ),
    ("module", Directory(&[])),
];

/// The only clock source, which cannot be changed.
const CLOCKSOURCE: &[(&str, Node)] = &[
    (
        "available_clocksource",
        File(|text| put!(text, "{} \n", arch::CLOCK_SOURCE)),
    ),
    (
        "current_clocksource",
        Setting(
            |text| put!(text, "{}\n", arch::CLOCK_SOURCE),
            |bytes| match bytes.trim_ascii() == arch::CLOCK_SOURCE.as_bytes() {
                true => Ok(()),
                false => Err(Errno::EINVAL),
            },
        ),
    ),
];

/// The only node of memory.
const NODES: &[(&str, Node)] = &[
    ("has_cpu", File(zero)),
    ("has_memory", File(zero)),
    ("has_normal_memory", File(zero)),
    (
        "node0",
        Directory(&[
            ("cpulist", File(cpus)),
            ("cpumap", File(all)),
            ("distance", File(|text| text.push(b"10\n"))),
            ("meminfo", File(system::node_meminfo)),
            ("numastat", File(zones::numa)),
            ("vmstat", File(system::vmstat)),
        ]),
    ),
    ("online", File(zero)),
    ("possible", File(zero)),
];

const LOOPBACK: &[(&str, Node)] = &[
    ("addr_len", File(|text| text.push(b"6\n"))),
    ("address", File(|text| text.push(b"00:00:00:00:00:00\n"))),
    ("broadcast", File(|text| text.push(b"00:00:00:00:00:00\n"))),
    ("carrier", File(|text| text.push(b"1\n"))),
    ("dev_id", File(|text| text.push(b"0x0\n"))),
    ("flags", File(|text| text.push(b"0x9\n"))),
    ("ifindex", File(|text| put!(text, "{}\n", interface::INDEX))),
    ("iflink", File(|text| put!(text, "{}\n", interface::INDEX))),
    ("mtu", File(|text| put!(text, "{}\n", interface::MTU))),
    ("operstate", File(|text| text.push(b"unknown\n"))),
    (
        "subsystem",
        Link(|text| text.push(b"../../../../class/net")),
    ),
    (
        "tx_queue_len",
        File(|text| put!(text, "{}\n", interface::QUEUE)),
    ),
    ("type", File(|text| put!(text, "{}\n", interface::HARDWARE))),
    (
        "uevent",
        File(|text| put!(text, "INTERFACE=lo\nIFINDEX={}\n", interface::INDEX)),
    ),
];

fn zero(text: &mut Text) {
    text.push(b"0\n");
}

const CPU: &[(&str, Node)] = &[
    (
        "kernel_max",
        File(|text| put!(text, "{}\n", arch::MAX_CPUS - 1)),
    ),
    ("online", File(cpus)),
    ("possible", File(possible)),
    ("present", File(possible)),
];

/// The directory of a CPU. Each is a core, and all are in one package.
const EACH_CPU: &[(&str, Node)] = &[
    (
        "mte_tcf_preferred",
        SettingOf(
            |cpu, text| put!(text, "{}\n", arch::preferred_checks(cpu)),
            arch::set_preferred_checks,
        ),
    ),
    ("online", File(|text| put!(text, "1\n"))),
    ("topology", Directory(TOPOLOGY)),
];

/// The online CPUs, each with the files that this machine supports.
const CPUS: Family = Family {
    from: |_, first| (first..arch::cpu::possible()).find(|&cpu| arch::cpu::get(cpu).is_some()),
    name: |cpu, text| put!(text, "cpu{cpu}"),
    node: |_| Directory(&EACH_CPU[usize::from(!arch::has_tags())..]),
};

const TOPOLOGY: &[(&str, Node)] = &[
    ("core_cpus", Of(mask)),
    ("core_cpus_list", Of(number)),
    ("core_id", Of(number)),
    ("core_siblings", File(all)),
    ("core_siblings_list", File(cpus)),
    ("package_cpus", File(all)),
    ("package_cpus_list", File(cpus)),
    ("physical_package_id", File(zero)),
    ("thread_siblings", Of(mask)),
    ("thread_siblings_list", Of(number)),
];

fn number(cpu: usize, text: &mut Text) {
    put!(text, "{cpu}\n");
}

fn mask(cpu: usize, text: &mut Text) {
    put_mask(1 << cpu, text);
}

fn all(text: &mut Text) {
    put_mask(arch::cpu::online_mask(), text);
}

/// A CPU mask in groups of 32 bits, with as many digits as the possible CPUs need.
fn put_mask(set: u64, text: &mut Text) {
    match arch::cpu::possible() {
        count @ ..=32 => put!(text, "{set:0digits$x}\n", digits = count.div_ceil(4)),
        count => {
            let digits = (count - 32).div_ceil(4);
            put!(text, "{:0digits$x},{:08x}\n", set >> 32, set as u32);
        }
    }
}

const HUGE: &[(&str, Node)] = &[
    ("enabled", File(huge)),
    (
        "hpage_pmd_size",
        File(|text| put!(text, "{}\n", huge_page::SIZE)),
    ),
];

/// All policies for huge pages, with the present one in brackets.
fn huge(text: &mut Text) {
    for (place, (name, policy)) in huge_page::POLICIES.iter().enumerate() {
        let gap = if place == 0 { "" } else { " " };
        if *policy == huge_page::policy() {
            put!(text, "{gap}[{name}]");
        } else {
            put!(text, "{gap}{name}");
        }
    }
    put!(text, "\n");
}

fn cpus(text: &mut Text) {
    put_list(arch::cpu::online_mask(), text);
}

fn possible(text: &mut Text) {
    put_list(u64::MAX >> (64 - arch::cpu::possible()), text);
}

fn put_list(set: u64, text: &mut Text) {
    list_bits(set, text);
    put!(text, "\n");
}

/// The root of the file system.
pub fn root() -> Result<Arc<Dentry>> {
    seq_file::root(Fixed::root(Directory(ROOT), Tree::Sys, super::new_device()))
}
