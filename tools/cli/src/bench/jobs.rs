//! Programs of a guest under `programs/init`, on any kernel, with their output.

use std::slice;
use std::time::Duration;

use anyhow::Result;
use wire::{Channel, Control, Job};

use super::Bench;
use super::counted::{self, Counted};
use super::interrupt;
use super::patience::Patience;
use super::result::{Column, Failure};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::initramfs::Initramfs;
use crate::qemu::{self, Accel, Machine};
use crate::session::{Event, Folder, Session};

/// The outcome of a program.
#[derive(Clone)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// How it ended, or how the machine ended before it.
    pub end: Result<String, Failure>,
}

/// Programs on one kernel.
pub struct Jobs<'a> {
    pub subject: &'a Subject,
    pub arch: Arch,
    /// The maximum processor time for each program.
    pub limit: Duration,
}

impl Jobs<'_> {
    /// Runs the jobs one after another, and boots again after a job that ended the machine. Every
    /// machine runs `first` before; a machine that does not survive it has no results. The column
    /// gets the command, and how the first lost machine ended.
    pub fn run(
        &self,
        bench: &Bench,
        tree: &mut Initramfs,
        first: &Job,
        jobs: &[Job],
        column: &mut Column,
    ) -> Result<Vec<Output>> {
        let machine = self.machine(bench, Vec::new());
        let mut outputs = Vec::new();
        while let Some(left) = jobs.get(outputs.len()..).filter(|left| !left.is_empty()) {
            let all = [slice::from_ref(first), left].concat();
            let mut session = guest::boot(bench.project, &machine, tree, &all, None)?;
            let begun = collect(&mut session, self.limit)?;
            if begun.end.is_err() {
                outputs.resize(jobs.len(), begun);
            }
            for _ in outputs.len()..jobs.len() {
                let output = collect(&mut session, self.limit)?;
                let lost = output.end.is_err();
                outputs.push(output);
                if lost {
                    break;
                }
            }
        }
        column.take(&outputs, shown(bench, &machine));
        Ok(outputs)
    }

    /// Runs jobs under the plugin, after the kernel's own work at its start is finished, and fills
    /// the column in as above. Their phases have the tags from 1 on. `more` are further options for
    /// the plugin.
    pub fn run_counted(
        &self,
        bench: &Bench,
        tree: &mut Initramfs,
        mut jobs: Vec<Job>,
        more: &str,
        column: &mut Column,
    ) -> Result<(Vec<Output>, Counted)> {
        let folder = Folder::new(bench.project.cache.join("run"))?;
        let counts = folder.file("counts");
        let plugin = counted::plugin(bench.project)?;
        let plugin = format!("file={},out={}{more}", plugin.display(), counts.display());
        let machine = self.machine(bench, vec!["-plugin".into(), plugin]);
        if let Some(first) = jobs.first_mut() {
            first.settle = true;
        }
        let mut session = guest::boot(bench.project, &machine, tree, &jobs, None)?;
        let mut outputs = Vec::new();
        for _ in &jobs {
            outputs.push(collect(&mut session, self.limit)?);
            if outputs.last().is_some_and(|output| output.end.is_err()) {
                break;
            }
        }
        counted::await_end(&mut session)?;
        column.take(&outputs, shown(bench, &machine));
        Ok((outputs, Counted::read(&counts)?))
    }

    fn machine<'b>(&'b self, bench: &Bench<'b>, options: Vec<String>) -> Machine<'b> {
        Machine {
            arch: self.arch,
            kernel: &self.subject.kernel,
            cpu: self.subject.cpu.or(bench.cpu),
            smp: 1,
            memory: "1G",
            icount: true,
            as_shipped: true,
            accel: Accel::Tcg,
            debugger: None,
            disks: Vec::new(),
            shares: Vec::new(),
            append: self.subject.parameters.clone(),
            options,
        }
    }
}

impl Column {
    fn take(&mut self, outputs: &[Output], command: String) {
        self.commands.push(command);
        let failed = |output: &Output| output.end.as_ref().err().cloned();
        self.failure = outputs.iter().find_map(failed);
    }
}

/// The machine's command, with paths below the checkout made relative.
pub fn shown(bench: &Bench, machine: &Machine) -> String {
    let command = qemu::shell_line(&guest::command_line(bench.project, machine));
    bench.project.relative(&command)
}

/// A failure that shows the end of the machine's log.
fn failure_with_log(session: &Session, reason: &str) -> Failure {
    Failure {
        reason: reason.into(),
        console: session.log_end(),
    }
}

/// Collects the output of the next program, within this processor time.
pub fn collect(session: &mut Session, limit: Duration) -> Result<Output> {
    let mut patience = Patience::new(session, limit);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let end = loop {
        match interrupt::next(session, &mut patience)? {
            Event::Frame(Channel::Stdout, bytes) => stdout.extend(bytes),
            Event::Frame(Channel::Stderr, bytes) => stderr.extend(bytes),
            Event::Frame(Channel::Control, payload) => match Control::decode(&payload) {
                Some(Control::Exited(status)) => break Ok(format!("exit status {status}")),
                Some(Control::Killed(signal)) => break Ok(format!("killed by signal {signal}")),
                Some(Control::Failed(errno)) => break Ok(format!("not started: error {errno}")),
                _ => {}
            },
            Event::TimedOut => break Err(failure_with_log(session, "hung: the time ran out")),
            Event::Closed => break Err(failure_with_log(session, "the machine stopped")),
            _ => {}
        }
    };
    Ok(Output {
        stdout,
        stderr,
        end,
    })
}
