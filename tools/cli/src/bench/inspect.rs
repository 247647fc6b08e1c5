//! `stile inspect entry`: the way of a system call that does nothing, from the vector to the return, as it was executed.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::Bench;
use super::boot::Boot;
use super::path::{Path, Tally};
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use super::systems;
use super::text;
use crate::arch::Arch;
use crate::project::{Project, progress};

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The way of a system call that does nothing
    Entry,
}

/// Options of `inspect`.
#[derive(Args, Debug)]
pub struct InspectOptions {
    /// What to look at
    #[arg(value_enum)]
    what: What,
    /// Architecture of the machine
    #[arg(long, value_enum, default_value = "arm64")]
    arch: Arch,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// A kernel: stile (with each of its policies), linux-6.12, linux-6.1 (Debian's), or a file
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Print figures and instructions as JSON
    #[arg(long)]
    json: bool,
}

/// The plugin's options: the first batch's instructions after the one that warms up.
const TRACE: &str = ",trace=1,skip=1,limit=6000";

/// Traces one null call on each kernel.
pub fn inspect(project: &Project, options: &InspectOptions) -> Result<u8> {
    let What::Entry = options.what;
    let bench = Bench {
        project,
        quick: true,
        cpu: options.cpu.as_deref(),
    };
    let (mut columns, mut listings, mut documents) = (Vec::new(), String::new(), Vec::new());
    for subject in systems::ENTRY.subjects(&options.kernel, &options.append, options.arch)? {
        progress(&format!("tracing a null call on {}", subject.label));
        let boot = Boot {
            subject: &subject,
            arch: options.arch,
            cpus: 1,
            arguments: ["--batches", "1", "--settle", "3000", "null_call"]
                .map(String::from)
                .to_vec(),
            plugin: Some(TRACE),
            limit: Duration::from_secs(180),
        };
        let booted = boot.run(&bench)?;
        let path = Path::of(&booted.counted.trace);
        if let Some(path) = &path {
            listings += &listing(&subject.label, path);
            documents.push(document(&subject.label, &booted.command, path));
        }
        let failure = booted.failure.or_else(|| path.is_none().then(no_call));
        let rows = path.map_or(Vec::new(), |path| rows(&path));
        let (label, commands) = (subject.label, vec![booted.command]);
        columns.push(Column {
            head: head(options.arch),
            label,
            kernel: String::new(),
            commands,
            failure,
            rows,
        });
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&documents)?);
    } else {
        print!("{listings}{}", text::render(&Report::new(columns)));
    }
    Ok(0)
}

fn no_call() -> Failure {
    Failure {
        reason: "no whole call in the trace".into(),
        console: String::new(),
    }
}

fn head(arch: Arch) -> Head {
    Head {
        id: "entry".into(),
        title: format!("The way of getppid, {}", arch.debian()),
        unit: "before the call's own function / from entry to return".into(),
        note: "As executed, in a warm kernel. The function is what the last indirect call goes to."
            .into(),
        ratios: false,
        mean: false,
        detail: false,
    }
}

/// The figures of a tally, by name.
fn figures(tally: Tally) -> [(&'static str, usize); 9] {
    [
        ("instructions", tally.instructions),
        ("conditional branches", tally.tests),
        ("branches taken", tally.taken),
        ("indirect branches", tally.indirect),
        ("returns", tally.returns),
        ("loads", tally.loads),
        ("stores", tally.stores),
        ("longest chain of loads", tally.dependent_loads),
        ("system registers", tally.system_registers),
    ]
}

fn rows(path: &Path) -> Vec<Row> {
    let part = |name: &str, tally| {
        figures(tally).map(|(kind, count)| Row::new(format!("{name}: {kind}"), "", count as f64))
    };
    [
        part("to the function", path.before()),
        part("all", path.whole()),
    ]
    .concat()
}

/// The instructions, one a line, with an arrow where a branch was taken.
fn listing(label: &str, path: &Path) -> String {
    let mut text = format!("{label}\n");
    for (place, step) in path.steps.iter().enumerate() {
        if place == path.to_function {
            text += "  the call's own function:\n";
        }
        let arrow = if step.taken { "  ->" } else { "" };
        text += &format!("  {:016x}  {}{arrow}\n", step.pc, step.text);
    }
    text + "\n"
}

fn document(label: &str, command: &str, path: &Path) -> serde_json::Value {
    let tally = |tally| {
        figures(tally)
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let steps = path.steps.iter().map(
        |step| json!({ "pc": format!("{:#x}", step.pc), "text": step.text, "taken": step.taken }),
    );
    json!({
        "kernel": label,
        "command": command,
        "to_function": tally(path.before()),
        "all": tally(path.whole()),
        "instructions": steps.collect::<Vec<_>>(),
    })
}
