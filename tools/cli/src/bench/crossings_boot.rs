//! Boots a machine whose first program is the measuring program, and waits for its end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Bench;
use super::counted::{self, Counted};
use super::interrupt;
use super::patience::Patience;
use super::result::Failure;
use super::subject::Subject;
use crate::arch::Arch;
use crate::disk;
use crate::initramfs::Initramfs;
use crate::qemu::{self, Accel, Files, Machine, Qemu};
use crate::session::{Event, Folder, Link, Session};
use crate::toolchain;

/// The number of console lines shown after a failure.
const CONSOLE_LINES: usize = 25;

/// The program's message about an unknown argument.
const NOT_UNDERSTOOD: &str = "# not understood: ";

/// The machine to boot.
pub struct Boot<'a> {
    pub subject: &'a Subject,
    pub arch: Arch,
    pub cpus: u32,
    /// The arguments of `programs/crossings`.
    pub arguments: Vec<String>,
    /// The plugin's options for work besides counting. Without the plugin, times are the host's,
    /// and figures are not reproducible.
    pub plugin: Option<&'a str>,
    /// The processor time after which the machine counts as hung.
    pub limit: Duration,
}

/// The outcome.
pub struct Booted {
    /// QEMU's command line, with paths below the checkout made relative.
    pub command: String,
    /// The console's output.
    pub console: String,
    pub counted: Counted,
    /// The content of the plugin's file.
    pub counts: Vec<u8>,
    pub failure: Option<Failure>,
}

impl Boot<'_> {
    /// Boots and waits. A machine that hangs or panics is not an error, but a failure in the
    /// result.
    pub fn run(&self, bench: &Bench) -> Result<Booted> {
        let project = bench.project;
        let program = toolchain::bare_program(project, self.arch, "crossings")?;
        let mut tree = Initramfs::new(project, self.arch);
        tree.file("init", &program)?;
        tree.text("crossings.arguments", self.arguments.join("\n").as_bytes());
        let folder = Folder::new(project.cache.join("run"))?;
        let [initramfs, log, counts] = ["initramfs", "log", "counts"].map(|name| folder.file(name));
        fs::write(&initramfs, tree.write()?)?;
        let options = match self.plugin {
            None => Vec::new(),
            Some(more) => {
                let (file, out) = (counted::plugin(project)?, counts.display());
                vec![
                    "-plugin".into(),
                    format!("file={},out={out}{more}", file.display()),
                ]
            }
        };
        let machine = Machine {
            arch: self.arch,
            kernel: &self.subject.kernel,
            cpu: self.subject.cpu.or(bench.cpu),
            smp: self.cpus,
            memory: "1G",
            icount: self.plugin.is_some(),
            as_shipped: true,
            accel: Accel::Tcg,
            debugger: None,
            disks: Vec::new(),
            shares: Vec::new(),
            append: self.subject.parameters.clone(),
            options,
        };
        let image = self.subject.kernel.image(project, self.arch)?;
        let qemu = Qemu::find(project, self.arch)?;
        let files = Files {
            image: &image,
            initramfs: &initramfs,
            log: &log,
            folder: initramfs.parent().unwrap_or(Path::new("")),
        };
        let link = Link::new()?;
        let command = [qemu.command, machine.arguments(&files, link.guest())].concat();
        let place = initramfs.parent().unwrap_or(Path::new(""));
        let shown = qemu::shell_line(&command).replace(&place.display().to_string(), "RUN");
        let shown = project.relative(&shown);
        let mut session =
            Session::start(&command, link, folder, log.clone(), disk::most_bytes(&[]))?;
        let timed_out = wait(&mut session, self.limit)?;
        if !timed_out {
            counted::await_end(&mut session)?;
        }
        let console = fs::read(&log).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).replace('\r', "");
        if let Some((_, word)) = console.split_once(NOT_UNDERSTOOD) {
            let word = word.lines().next().unwrap_or_default();
            bail!("{word}: no row of programs/crossings; `./stile bench crossings` shows them all");
        }
        let failure = failure(timed_out, &console).map(|reason| Failure {
            reason: reason.into(),
            console: if console.is_empty() {
                session.log_end()
            } else {
                last_lines(&console)
            },
        });
        Ok(Booted {
            command: shown,
            console,
            counted: Counted::read(&counts)?,
            counts: fs::read(&counts).unwrap_or_default(),
            failure,
        })
    }
}

/// Waits for the machine's end; returns whether the time ran out first.
fn wait(session: &mut Session, limit: Duration) -> Result<bool> {
    let mut patience = Patience::new(session, limit);
    loop {
        match interrupt::next(session, &mut patience)? {
            Event::Closed => return Ok(false),
            Event::TimedOut => return Ok(true),
            _ => {}
        }
    }
}

/// The failure, if the console does not show that the program finished.
fn failure(timed_out: bool, console: &str) -> Option<&'static str> {
    let panicked = || console.to_lowercase().contains("panic");
    match timed_out {
        false if console.lines().any(|line| line == "# done") => None,
        true if panicked() => Some("panicked"),
        true => Some("hung: the time ran out"),
        false if panicked() => Some("panicked"),
        false => Some("stopped before its end"),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn a_bad_end_is_named() {
        assert_eq!(failure(false, "x\n# done\n"), None);
        assert_eq!(
            failure(false, "Kernel panic - not syncing"),
            Some("panicked")
        );
        assert_eq!(
            failure(true, "null_call 1 1 ns"),
            Some("hung: the time ran out")
        );
        assert_eq!(failure(false, ""), Some("stopped before its end"));
    }
}
