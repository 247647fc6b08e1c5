//! The kernel's own unit tests: a kernel built with them, booted in QEMU, prints its results on the
//! serial line.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Report;
use super::machines::Setting;
use crate::arch::Arch;
use crate::guest;
use crate::kernel_image::{Kernel, flat_image};
use crate::project::Project;
use crate::qemu::Machine;
use crate::session::{self, Event};
use crate::toolchain;

/// A boot to check: the unit tests, or one of the ways to fail.
struct Boot {
    /// `kernel/MACHINE/units`, `…/late-cpu` or `…/END`.
    name: String,
    parameters: Vec<String>,
    expected: Expected,
}

/// The expected result of a boot.
enum Expected {
    /// The units pass.
    Units,
    /// A CPU that lacks features of the others stays offline, and the others continue.
    LateCpu,
    /// The log has these lines, and the machine is off.
    End(Vec<String>),
}

/// The time limit for the whole boot.
const LIMIT: Duration = Duration::from_secs(300);

/// Boots the self-testing kernel on a machine in each requested way.
pub fn test(project: &Project, setting: &Setting, report: &mut Report) -> Result<()> {
    let mut boots = boots(setting);
    boots.retain(|boot| report.wants(&boot.name));
    if boots.is_empty() {
        return Ok(());
    }
    let image = flat_image(&toolchain::kernel(project, setting.arch, &["selftest"])?)?;
    let kernel = Kernel::Selftest(image);
    for Boot {
        name,
        parameters,
        expected,
    } in &boots
    {
        let parameters: Vec<_> = parameters.iter().map(String::as_str).collect();
        let booted = boot(project, &setting.machine(&kernel, &parameters))?;
        match expected {
            Expected::Units => units(report, name, &booted),
            Expected::LateCpu => late_cpu(report, name, &booted),
            Expected::End(sayings) => bad_end(report, name, sayings, &booted),
        }
    }
    Ok(())
}

/// The boots of a machine.
fn boots(setting: &Setting) -> Vec<Boot> {
    let boot = |what: &str, parameters: &[&str], expected| Boot {
        name: format!("kernel/{}/{what}", setting.name),
        parameters: parameters.iter().copied().map(String::from).collect(),
        expected,
    };
    let mut all = vec![boot("units", &["selftest"], Expected::Units)];
    if setting.smp > 1 {
        let lacking = match setting.arch {
            Arch::Arm64 => "cpu1.ID_AA64MMFR0_EL1.PARANGE=0",
            Arch::Riscv64 => "cpu1.isa=rv64imac",
        };
        all.push(boot("late-cpu", &["cpu1.late", lacking], Expected::LateCpu));
    }
    // The ways to fail are the same on every CPU model.
    if !setting.runs_all() {
        return all;
    }
    let alone = setting.smp == 1;
    for (end, sayings) in ENDS {
        if alone && end == "hard-lockup" {
            continue;
        }
        let sayings = sayings.iter().copied().map(String::from).collect();
        let parameter = format!("selftest={end}");
        all.push(boot(end, &[&parameter, WATCHED], Expected::End(sayings)));
    }
    // The idle stack of the boot CPU, whose stacks are part of the image, and that of another CPU.
    for cpu in 0..setting.smp.min(2) {
        let end = format!("overflow-cpu{cpu}");
        let who = format!("PANIC on CPU {cpu}");
        let sayings = [&*who, "kernel stack overflow", "selftest::endless+"];
        let sayings = sayings.map(String::from).to_vec();
        let parameter = format!("selftest={end}");
        all.push(boot(&end, &[&parameter], Expected::End(sayings)));
    }
    all
}

/// Failures that the kernel is asked for, and the lines that its log must then have.
const ENDS: [(&str, &[&str]); 8] = [
    (
        "panic",
        &[
            "PANIC",
            "in doomed",
            ": as asked at ",
            "called by",
            "selftest::asked_panic+",
        ],
    ),
    (
        "wild-access",
        &[
            "PANIC",
            "in doomed",
            "registers:",
            "wild_access+",
            "called by",
        ],
    ),
    (
        "overflow",
        &[
            "PANIC",
            "in doomed",
            "kernel stack overflow",
            "selftest::endless+",
        ],
    ),
    (
        "self-deadlock",
        &[
            "in doomed",
            "self-deadlock: holds the lock of a machine::selftest::Guarded that it takes",
            "selftest::self_deadlock+",
        ],
    ),
    (
        "read-in-write",
        &["in doomed", "self-deadlock: a CPU reads while it writes"],
    ),
    (
        "sleeping-deadlock",
        &[
            "in doomed",
            "self-deadlock: holds the lock of a ",
            "selftests::Guarded that it takes",
            "selftests::sleeping_deadlock+",
        ],
    ),
    (
        "soft-lockup",
        &[
            "PANIC",
            "watchdog: BUG: soft lockup - CPU#",
            "s! [doomed:0]",
            "selftests::soft_lockup+",
        ],
    ),
    (
        "hard-lockup",
        &[
            "PANIC",
            "watchdog: Watchdog detected hard LOCKUP on cpu ",
            "does not answer",
            "selftests::hard_lockup+",
        ],
    ),
];

/// The watchdog's parameter: lockups are detected after about five and eight seconds, which is
/// longer than a busy host stops a CPU.
const WATCHED: &str = "watchdog_thresh=4";

/// How QEMU ended, if it did, and the kernel's log.
struct Booted {
    status: Option<ExitStatus>,
    log: String,
}

fn boot(project: &Project, machine: &Machine) -> Result<Booted> {
    let mut tree = guest::tree(project, machine.arch)?;
    let mut session = guest::boot(project, machine, &mut tree, &[], None)?;
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        match session.next(Some(deadline)) {
            Event::Closed => break session.finish()?,
            Event::TimedOut => break None,
            _ => {}
        }
    };
    Ok(Booted {
        status,
        log: session.log(),
    })
}

impl Booted {
    /// Whether the machine was turned off.
    fn is_off(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    fn describe(&self) -> String {
        let how = match self.status {
            Some(status) => format!("QEMU ended with {status}"),
            None => "the machine did not end".into(),
        };
        format!("{how}\n{}", session::end_of(&self.log))
    }
}

fn units(report: &mut Report, name: &str, booted: &Booted) {
    let mut passed = 0;
    for line in booted
        .log
        .lines()
        .filter_map(|line| line.split_once("selftest ").map(|(_, rest)| rest))
    {
        match line.split_once(' ') {
            Some((_, "ok")) => passed += 1,
            Some((unit, failure)) if failure.starts_with("FAILED") => {
                report.failed(&format!("{name}/{unit}"), failure)
            }
            _ => {}
        }
    }
    report.passed(passed);
    if !booted.is_off() || booted.log.contains("PANIC") || passed == 0 {
        report.failed(name, &booted.describe());
    }
}

/// Checks that a line names the features that the CPU that stays offline lacks.
fn late_cpu(report: &mut Report, name: &str, booted: &Booted) {
    if booted.log.contains("CPU 1 stays offline: ") && booted.is_off() {
        report.passed(1);
    } else {
        report.failed(name, &booted.describe());
    }
}

fn bad_end(report: &mut Report, name: &str, sayings: &[String], booted: &Booted) {
    let missing = sayings
        .iter()
        .find(|saying| !booted.log.contains(saying.as_str()));
    match missing {
        None if booted.is_off() => report.passed(1),
        None => report.failed(name, &booted.describe()),
        Some(missing) => report.failed(
            name,
            &format!("nothing says '{missing}': {}", booted.describe()),
        ),
    }
}
