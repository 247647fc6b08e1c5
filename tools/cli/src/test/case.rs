//! Cases: scripts in `tests/programs` with their expected output.
//!
//! `NAME.sh` is run by busybox's shell in a folder of its own. `NAME.stdin`, if there is one, is
//! its standard input. `NAME.expected` holds its standard output and, in the last line, how it
//! ended. Lines of the script that start with `#:` say what the case needs:
//!
//! - `#: lmbench PROGRAM…`: programs of Debian's lmbench, in `PATH`
//! - `#: program NAME…`: programs of this project's `programs/`, in `PATH`
//! - `#: package NAME…`: Debian packages with all that they need; cases that name the same ones
//!   share a machine
//! - `#: program32 NAME…`: the same, built for 32-bit Arm
//! - `#: go NAME…`: programs of `NAME.go` beside it, in `PATH`; without a Go toolchain the case is
//!   left out
//! - `#: file NAME…`: these files beside it, in `/tests`
//! - `#: status only`: its output differs from run to run; only how it ends is compared
//! - `#: machine NAME`: it is recorded on, and runs on, this machine only
//! - `#: terminal`: its standard input, output and error are a terminal
//! - `#: only ARCH`: it needs something that exists on this architecture only
//! - `#: hypervisor`: it needs /dev/kvm, so it runs only on machines that start where the kernel
//!   can be a hypervisor
//! - `#: guest`: it runs guests: the VMM `vmm` is in `PATH`, and `/vm` holds Debian's Linux
//!   (`kernel`), its file tree (`initrd`) and its kernel parameters (`parameters`)
//! - `#: memory SIZE`: its machine has so much memory, in place of 1G; cases with the same size
//!   share one
//! - `#: disk SIZE`: its machine has an empty disk of so many MiB, /dev/vda; each such case has a
//!   machine of its own
//! - `#: share`: its machine has an empty folder of the host to mount, with the tag `share0`; each
//!   such case has a machine of its own
//! - `#: module NAME…`: modules that Debian's Linux loads for it, by their paths without the ending
//! - `#: minutes N`: it may take so long, and runs on one machine of each architecture
//! - `#: slow`: it waits or works for many seconds, and runs on two machines of each architecture,
//!   one of them with the kernel that checks itself, unless tests are named
//! - `#: long`: it is slower still, and runs only with `--long`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::arch::Arch;
use crate::project::{Project, find_program};

/// A program to run, and its expected behaviour.
#[derive(Debug, Default)]
pub struct Case {
    /// Its name: the file's without the ending.
    pub name: String,
    /// The script.
    pub script: PathBuf,
    /// The file of its standard input.
    pub stdin: Option<PathBuf>,
    /// Programs of lmbench that it needs.
    pub lmbench: Vec<String>,
    /// Programs of `programs/` that it needs.
    pub programs: Vec<String>,
    /// Debian packages that it needs.
    pub packages: Vec<String>,
    /// Programs of `programs/` for 32-bit Arm that it needs.
    pub compat_programs: Vec<String>,
    /// The one machine that it is for.
    pub machine: Option<String>,
    /// Go sources, without their ending, of programs that it needs.
    pub go: Vec<String>,
    /// Files beside it that it reads.
    pub files: Vec<String>,
    /// Only its status is compared.
    pub status_only: bool,
    /// The case has a terminal.
    pub terminal: bool,
    /// The one architecture that it is for.
    pub only: Option<Arch>,
    /// The case needs /dev/kvm.
    pub hypervisor: bool,
    /// The case runs guests.
    pub guest: bool,
    /// The memory of its machine, where it differs from that of others.
    pub memory: Option<String>,
    /// The size of the disk of its machine, in MiB, if it has one.
    pub disk: Option<u64>,
    /// Whether its machine has a folder of the host.
    pub share: bool,
    /// Modules that Debian's Linux loads for it.
    pub modules: Vec<String>,
    /// How many minutes it may take, if that is more than others; then one machine of each
    /// architecture runs it.
    pub minutes: Option<u64>,
    /// Two machines of each architecture run the case, unless tests are named.
    pub slow: bool,
    /// The case is run only with `--long`.
    pub long: bool,
}

impl Case {
    /// The file of its expected output.
    pub fn expected_file(&self) -> PathBuf {
        self.script.with_extension("expected")
    }

    /// The outcome of a run, as it is recorded.
    pub fn record(&self, stdout: &[u8], end: &str) -> String {
        let mut text = String::new();
        if !self.status_only {
            text.push_str(&String::from_utf8_lossy(stdout));
            if !text.is_empty() && !text.ends_with('\n') {
                text.push_str("\n(no newline at the end)\n");
            }
        }
        text.push_str(end);
        text.push('\n');
        text
    }
}

/// All cases that this machine can run, by name.
pub fn all(project: &Project) -> Result<Vec<Case>> {
    let folder = project.root.join("tests/programs");
    let mut cases = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            let case = read(&path)?;
            if case.go.is_empty() || find_program("go").is_some() {
                cases.push(case);
            }
        }
    }
    cases.sort_by(|one, other| (&one.packages, &one.name).cmp(&(&other.packages, &other.name)));
    Ok(cases)
}

fn read(script: &Path) -> Result<Case> {
    let name = script
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let stdin = Some(script.with_extension("stdin")).filter(|path| path.exists());
    let mut case = Case {
        name,
        script: script.into(),
        stdin,
        ..Case::default()
    };
    for line in fs::read_to_string(script)?
        .lines()
        .filter_map(|line| line.strip_prefix("#:"))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let names = || words[1..].iter().map(|word| word.to_string());
        match words.as_slice() {
            ["lmbench", _, ..] => case.lmbench.extend(names()),
            ["program", _, ..] => case.programs.extend(names()),
            ["package", _, ..] => case.packages.extend(names()),
            ["program32", _, ..] => case.compat_programs.extend(names()),
            ["machine", name] => case.machine = Some(name.to_string()),
            ["go", _, ..] => case.go.extend(names()),
            ["file", _, ..] => case.files.extend(names()),
            ["status", "only"] => case.status_only = true,
            ["only", arch] => {
                case.only = Some(Arch::from_str(arch, false).map_err(anyhow::Error::msg)?)
            }
            ["terminal"] => case.terminal = true,
            ["hypervisor"] => case.hypervisor = true,
            ["guest"] => case.guest = true,
            ["memory", size] => case.memory = Some(size.to_string()),
            ["disk", size] => case.disk = Some(size.parse()?),
            ["share"] => case.share = true,
            ["module", _, ..] => case.modules.extend(names()),
            ["minutes", number] => case.minutes = Some(number.parse()?),
            ["slow"] => case.slow = true,
            ["long"] => case.long = true,
            _ => bail!("{}: what does '#:{line}' mean?", script.display()),
        }
    }
    Ok(case)
}
