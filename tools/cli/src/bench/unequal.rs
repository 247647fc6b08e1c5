//! Differences between the kernels, as far as they report them.

use std::time::Duration;

use super::Bench;
use super::jobs::Jobs;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;

/// Differences that every report states, and those of some.
pub const ALWAYS: &str = "Equal are the emulated machine, its memory and CPU, the programs and the initramfs. Not equal: \
    the compilers (under Kernels); the configuration (Debian's has control groups, security modules, tracing and hundreds \
    of drivers, which Stile has not); what is done against speculation (Linux as shipped does all that Debian switched on, \
    lean is with mitigations=off kpti=off randomize_kstack_offset=off, Stile only bounds the number of a system call); the \
    place of the kernel (Linux moves it at random); and the devices of console and channel, where a kernel lacks a driver.";

/// Prints what Linux reports about each vulnerability that the processor may have, as lines
/// NAME:TEXT.
const SCRIPT: &str = "cd /sys/devices/system/cpu/vulnerabilities 2>/dev/null && grep . * | grep -v ':Not affected$'; true";

/// Queries one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Column {
    let name = arch.debian();
    let head = Head {
        id: format!("boot-{name}-unequal"),
        title: format!("What is not equal, {name}"),
        unit: "as the kernel says it below /sys/devices/system/cpu/vulnerabilities".into(),
        note: "And the parameters that it was given.".into(),
        ratios: false,
        mean: false,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| {
        let parameters = subject.parameters.join(" ");
        column.rows.push(text_row("parameters", &parameters));
        let mut tree = guest::tree(bench.project, arch)?;
        let jobs = Jobs {
            subject,
            arch,
            limit: Duration::from_secs(60),
        };
        let (first, job) = (guest::job(["true"]), guest::job(["sh", "-c", SCRIPT]));
        for output in jobs.run(bench, &mut tree, &first, &[job], column)? {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines = said.lines().filter_map(|line| line.split_once(':'));
            column
                .rows
                .extend(lines.map(|(weakness, text)| text_row(weakness, text)));
        }
        Ok(())
    })
}

/// A row of words.
fn text_row(name: &str, text: &str) -> Row {
    let text = match text {
        "" => "none",
        text => text,
    };
    Row {
        value: None,
        remark: Some(text.into()),
        ..Row::new(name, "", 0.0)
    }
}
