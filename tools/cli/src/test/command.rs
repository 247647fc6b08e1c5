//! The command itself, as a user sees `stile run`: statuses, standard input and files.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::Result;

use super::Report;
use crate::arch::Arch;
use crate::project::Project;
use crate::toolchain;

/// One run of the command.
struct Run<'a> {
    name: &'a str,
    /// The arguments after `stile run`.
    arguments: &'a [&'a str],
    stdin: &'a [u8],
    status: i32,
    stdout: Option<&'a [u8]>,
    /// Text that standard error must contain.
    stderr: &'a str,
}

const PLAIN: Run = Run {
    name: "",
    arguments: &[],
    stdin: b"",
    status: 0,
    stdout: Some(b""),
    stderr: "",
};

/// Every byte value twice, with no newline at the end.
fn all_bytes() -> Vec<u8> {
    (0..512).map(|byte| byte as u8).collect()
}

/// Runs with short input and output.
const RUNS: &[Run] = &[
    Run {
        name: "status",
        arguments: &["--", "sh", "-c", "exit 7"],
        status: 7,
        ..PLAIN
    },
    Run {
        name: "signal",
        arguments: &["--", "sh", "-c", "kill -9 $$"],
        status: 137,
        ..PLAIN
    },
    Run {
        name: "not-found",
        arguments: &["--", "nosuch"],
        status: 127,
        stderr: "nosuch",
        ..PLAIN
    },
    Run {
        name: "no-host-file",
        arguments: &["./nosuch"],
        status: 127,
        stderr: "not found",
        ..PLAIN
    },
    Run {
        name: "not-executable",
        arguments: &["./Cargo.toml"],
        status: 126,
        stderr: "not executable",
        ..PLAIN
    },
    Run {
        name: "wrong-machine",
        arguments: &["/proc/self/exe"],
        status: 126,
        stderr: "x86-64",
        ..PLAIN
    },
    Run {
        name: "unknown-policy",
        arguments: &["--set", "idreg=x", "true"],
        status: 125,
        stderr: "locked",
        ..PLAIN
    },
    Run {
        name: "bad-option",
        arguments: &["--smp", "65", "true"],
        status: 125,
        stderr: "64",
        ..PLAIN
    },
    Run {
        name: "misspelt-option",
        arguments: &["--packge", "x", "--", "true"],
        status: 125,
        stderr: "'--package'",
        ..PLAIN
    },
    Run {
        name: "unknown-option",
        arguments: &["--vcpus", "2", "--", "true"],
        status: 125,
        stderr: "--vcpus is an option of 'stile vm'",
        ..PLAIN
    },
    Run {
        name: "options-of-the-program",
        arguments: &["echo", "--smp", "-n", "--", "x"],
        stdout: Some(b"--smp -n -- x\n"),
        ..PLAIN
    },
    Run {
        name: "in-a-package",
        arguments: &["--", "python3"],
        status: 127,
        stderr: "--package python3",
        ..PLAIN
    },
    Run {
        name: "in-another-package",
        arguments: &["--", "redis-cli"],
        status: 127,
        stderr: "--package redis-tools",
        ..PLAIN
    },
    Run {
        name: "timeout",
        arguments: &["--timeout", "3", "--", "sleep", "1000"],
        status: 124,
        stderr: "time",
        ..PLAIN
    },
    Run {
        name: "stdin",
        arguments: &["--", "wc", "-l"],
        stdin: b"a\nb\n",
        stdout: Some(b"2\n"),
        ..PLAIN
    },
    Run {
        name: "copy",
        arguments: &[
            "--copy",
            "LICENSE-MIT:/etc/x",
            "--",
            "head",
            "-n1",
            "/etc/x",
        ],
        stdout: Some(b"MIT License\n"),
        ..PLAIN
    },
    Run {
        name: "count",
        arguments: &["--count", "--", "true"],
        stderr: "execve",
        ..PLAIN
    },
    Run {
        name: "trace",
        arguments: &["--trace", "--", "true"],
        stderr: "exit_group(0",
        ..PLAIN
    },
    Run {
        name: "tour",
        arguments: &[],
        stdout: None,
        stderr: "system calls",
        ..PLAIN
    },
];

/// Runs with `bytes` and `zeroes` through them.
fn transfers<'a>(bytes: &'a [u8], zeroes: &'a [u8]) -> [Run<'a>; 3] {
    [
        Run {
            name: "binary",
            arguments: &["--", "cat"],
            stdin: bytes,
            stdout: Some(bytes),
            ..PLAIN
        },
        Run {
            name: "much-output",
            arguments: &["--", "head", "-c", "16777216", "/dev/zero"],
            stdout: Some(zeroes),
            ..PLAIN
        },
        Run {
            name: "icount-stdin",
            arguments: &["--icount", "--", "cat"],
            stdin: bytes,
            stdout: Some(bytes),
            ..PLAIN
        },
    ]
}

/// A test that consists of more than a run.
type Case = fn(&Project, Arch, &str, &mut Report) -> Result<()>;

/// The tests by name, with the architecture if only one has it.
const CASES: [(&str, Option<Arch>, Case); 6] = [
    ("icount-repeats", None, repeats),
    ("no-mirror", None, no_mirror),
    ("unread", None, unread),
    ("guest-hwaf", Some(Arch::Arm64), guest_hwaf),
    ("compat", Some(Arch::Arm64), compat),
    ("recoveries", Some(Arch::Riscv64), recoveries),
];

/// Runs the command as users do and compares.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let (bytes, zeroes) = (all_bytes(), vec![0; 1 << 24]);
    for run in RUNS.iter().chain(&transfers(&bytes, &zeroes)) {
        let name = format!("command/{}/{}", arch.debian(), run.name);
        if report.wants(&name) {
            match check(run, &start(project, arch, run)?) {
                None => report.passed(1),
                Some(how) => report.failed(&name, &how),
            }
        }
    }
    for (name, only, case) in CASES {
        let name = format!("command/{}/{name}", arch.debian());
        if only.is_none_or(|only| only == arch) && report.wants(&name) {
            case(project, arch, &name, report)?;
        }
    }
    super::disks::test(project, arch, report)?;
    super::images::test(project, arch, report)?;
    super::networks::test(project, arch, report)?;
    super::shares::test(project, arch, report)?;
    super::semihosting::test(project, arch, report)
}

fn start(project: &Project, arch: Arch, run: &Run) -> Result<Output> {
    start_with(project, arch, run, &[])
}

/// The command, for the same project as this one.
pub(super) fn command(project: &Project) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .current_dir(&project.root)
        .env("STILE_ROOT", &project.root)
        .env("STILE_TARGET", &project.target)
        .env("STILE_CACHE", &project.cache);
    Ok(command)
}

/// Runs a script in a guest, with further options of `run`.
pub(super) fn run_script(
    project: &Project,
    arch: Arch,
    options: &[String],
    script: &str,
) -> Result<Output> {
    let output = command(project)?
        .args(["run", "--arch", arch.debian()])
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()?;
    Ok(output)
}

/// How a run differs from its expected output.
pub(super) fn differs(output: &Output, expected: &str) -> Option<String> {
    let (said, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(said);
    (said != expected).then(|| format!("{}: {said}\n{errors}", output.status))
}

/// Starts the command with additional environment variables.
fn start_with(
    project: &Project,
    arch: Arch,
    run: &Run,
    environment: &[(&str, &OsStr)],
) -> Result<Output> {
    let mut child = command(project)?
        .args(["run", "--arch", arch.debian()])
        .args(run.arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let written = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(run.stdin));
    let output = child.wait_with_output()?;
    drop(written);
    Ok(output)
}

/// The difference of a run from its expectation, if any.
fn check(run: &Run, output: &Output) -> Option<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    if output.status.code() != Some(run.status) {
        return Some(format!(
            "{} instead of status {}\n{stdout}{stderr}",
            output.status, run.status
        ));
    }
    if run.stdout.is_some_and(|expected| expected != output.stdout) {
        return Some(format!("standard output is\n{stdout}{stderr}"));
    }
    (!stderr.contains(run.stderr))
        .then(|| format!("standard error lacks '{}':\n{stderr}", run.stderr))
}

/// Stile as a guest of itself runs its tour, and reads a trapped register on the fault path only
/// with the policy of `hwaf` that does so: otherwise only its start causes exits. The host's
/// instructions confirm that.
fn guest_hwaf(project: &Project, _arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let (mut exits, mut executed) = (Vec::new(), Vec::new());
    for policy in ["hwaf=cached", "hwaf=reread"] {
        let output = command(project)?
            .args(["vm", "--guest-kernel", "stile", "--icount"])
            .args(["--exits", "--instructions"])
            .args(["--guest-append", policy])
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let count = |name: &str| {
            let mut values = said.lines().filter_map(|line| line.strip_prefix(name));
            values.find_map(|value| value.trim().parse::<u64>().ok())
        };
        match (count("sysreg_exits "), count("host_instructions ")) {
            (Some(count), Some(instructions)) if output.status.success() => {
                exits.push(count);
                executed.push(instructions);
            }
            _ => {
                report.failed(name, &format!("{policy}: {}\n{said}", output.status));
                return Ok(());
            }
        }
    }
    // An exit takes at least 50 instructions.
    let more = 50 * exits[1].saturating_sub(exits[0]);
    if exits[0] < 1000 && exits[1] > 10 * exits[0] && executed[1] > executed[0] + more {
        report.passed(1);
    } else {
        let how = format!("cached and reread: exits {exits:?}, instructions {executed:?}");
        report.failed(name, &how);
    }
    Ok(())
}

/// A 32-bit Arm program runs by its name, and is refused on an architecture that cannot execute it.
fn compat(project: &Project, _arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let program = toolchain::compat_program(project, "arm32")?;
    let ways: [(&[&str], i32, &str); 3] = [
        (&[], 0, ""),
        (&["--cpu", "a64fx"], 126, "no 32-bit Arm"),
        (&["--arch", "riscv64"], 126, "a program for armhf"),
    ];
    for (options, status, said) in ways {
        let output = command(project)?
            .arg("run")
            .args(options)
            .arg(&program)
            .arg("calls")
            .stdin(Stdio::null())
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        let ran = output.stdout.is_empty() == (status != 0);
        if output.status.code() == Some(status) && ran && error.contains(said) {
            report.passed(1);
        } else {
            let how = format!("{options:?}: {} and said:\n{error}", output.status);
            report.failed(name, &how);
        }
    }
    Ok(())
}

/// With an empty cache and a mirror that does not answer, one line reports that, after lines about
/// the work in progress.
fn no_mirror(project: &Project, arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let cache = project
        .target
        .join(format!("tmp/empty-cache-{}", arch.debian()));
    _ = std::fs::remove_dir_all(&cache);
    let run = Run {
        arguments: &["--", "true"],
        ..PLAIN
    };
    let environment = [
        ("STILE_CACHE", cache.as_os_str()),
        (
            "STILE_DEBIAN_MIRROR",
            OsStr::new("http://127.0.0.1:9/debian"),
        ),
    ];
    let output = start_with(project, arch, &run, &environment)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let mut failures = said.lines().filter(|line| line.contains("127.0.0.1:9"));
    let alone = failures.next() == said.lines().last() && failures.next().is_none();
    if output.status.code() == Some(125)
        && alone
        && said.lines().all(|line| line.starts_with("stile: "))
    {
        report.passed(1);
    } else {
        report.failed(name, &format!("{} and said:\n{said}", output.status));
    }
    Ok(())
}

/// Output that nobody reads is lost, and the status is kept.
fn unread(project: &Project, _arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let status = command(project)?
        .args(["run", "--vcpus", "x", "--", "true"])
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .status()?;
    match status.code() {
        Some(125) => report.passed(1),
        _ => report.failed(name, &status.to_string()),
    }
    Ok(())
}

/// Two runs in which the machine's time is its instructions print the same, including times.
fn repeats(project: &Project, arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let script =
        "cat /proc/uptime; i=0; while [ $i -lt 50 ]; do (:); i=$((i + 1)); done; cat /proc/uptime";
    let run = Run {
        arguments: &["--icount", "--count", "--", "sh", "-c", script],
        ..PLAIN
    };
    let (first, second) = (start(project, arch, &run)?, start(project, arch, &run)?);
    // The command's own messages depend on how long it took.
    let said = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines = text.lines().filter(|line| !line.starts_with("stile: "));
        lines.map(str::to_owned).collect()
    };
    let same = first.stdout == second.stdout && said(&first) == said(&second);
    if same && first.status.success() && second.status.success() {
        report.passed(1);
    } else {
        report.failed(name, &format!("{first:?}\n{second:?}"));
    }
    Ok(())
}

/// If new entries stay hidden for a while, programs and the kernel recover thousands of times: the
/// kernel on stacks of new threads, since it maps nothing else after its start.
fn recoveries(project: &Project, arch: Arch, name: &str, report: &mut Report) -> Result<()> {
    let script = "i=0; while [ $i -lt 1000 ]; do (:); i=$((i + 1)); done";
    let (mut of_programs, mut of_stacks) = (0, 0);
    for seed in ["fence.inject=7", "fence.inject=8", "fence.inject=9"] {
        let words = [
            "--smp",
            "2",
            "--set",
            seed,
            "--count=json",
            "--",
            "sh",
            "-c",
            script,
        ];
        let run = Run {
            arguments: &words,
            ..PLAIN
        };
        let output = start(project, arch, &run)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let json = said.lines().last().unwrap_or_default();
        let counts: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        let fault = |kind: &str| counts["fault"][kind].as_u64().unwrap_or(0);
        if !output.status.success() || fault("spurious") == 0 || fault("new-mapping") == 0 {
            report.failed(name, &format!("{seed}: {output:?}"));
            return Ok(());
        }
        of_programs += fault("spurious");
        of_stacks += fault("new-mapping");
    }
    if of_programs > 10_000 && of_stacks > 1_000 {
        report.passed(1);
    } else {
        let told = format!("{of_programs} recoveries of programs, {of_stacks} on kernel stacks");
        report.failed(name, &told);
    }
    Ok(())
}
