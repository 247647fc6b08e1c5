//! The path of one crossing through a kernel, from entry to return, as executed.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use super::Bench;
use super::counted::Executed;
use super::crossings_boot::Boot;
use super::entry_compat;
use super::inspect::InspectOptions;
use super::path::{Path, Tally};
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use super::subject::Subject;
use super::systems;
use super::text;
use crate::arch::Arch;
use crate::project::progress;
use crate::symbols::Symbols;

/// The plugin's options: the instructions of the first batch after the one that warms up.
pub const TRACE: &str = ",trace=any,skip=1,limit=20000";

/// The instructions of several equal crossings.
pub struct Traced {
    /// The machine's command.
    pub command: String,
    pub trace: Vec<Executed>,
    pub failure: Option<Failure>,
}

/// A crossing that can be traced.
#[derive(Clone, Copy)]
struct Crossing<'a> {
    arch: Arch,
    /// A row of programs/crossings, or of programs/calls32.
    row: &'a str,
    /// Whether a 32-bit program makes it.
    compat: bool,
}

/// Traces one row on each kernel.
pub fn show(bench: &Bench, options: &InspectOptions) -> Result<u8> {
    if options.compat && options.arch != Arch::Arm64 {
        bail!("--compat: 32-bit programs run on arm64 only");
    }
    let crossing = Crossing {
        arch: options.arch,
        row: &options.row,
        compat: options.compat,
    };
    let (mut columns, mut listings, mut documents) = (Vec::new(), String::new(), Vec::new());
    for subject in systems::ENTRY.subjects(&options.kernel, &options.append, options.arch)? {
        progress(&format!("tracing {} on {}", options.row, subject.label));
        let traced = crossing.trace(bench, &subject)?;
        let path = Path::of(options.arch, &traced.trace);
        let symbols = Symbols::of(bench.project, &subject.kernel, options.arch);
        if let Ok(path) = &path {
            listings += &listing(&subject.label, path, &symbols);
            documents.push(document(&subject.label, &traced.command, path));
        }
        columns.push(crossing.column(&subject, traced, path));
    }
    if options.json {
        show!("{}", serde_json::to_string_pretty(&documents)?);
    } else {
        print!("{listings}{}", text::render(&Report::new(columns)));
    }
    Ok(0)
}

/// Traces the crossings that `entry` affects on one kernel: a system call and a page fault, of
/// 64-bit and of 32-bit programs.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let widths = [false, true].into_iter();
    let crossings = widths
        .flat_map(|compat| ["null_call", "anon_read"].map(|row| Crossing { arch, row, compat }));
    let of = |crossing: Crossing| {
        let traced = crossing.trace(bench, subject)?;
        let path = Path::of(arch, &traced.trace);
        Ok(crossing.column(subject, traced, path))
    };
    crossings.map(of).collect()
}

impl Crossing<'_> {
    fn trace(self, bench: &Bench, subject: &Subject) -> Result<Traced> {
        if self.compat {
            return entry_compat::trace(bench, subject, self.row, self.head());
        }
        let boot = Boot {
            subject,
            arch: self.arch,
            cpus: 1,
            arguments: ["--batches", "1", "--settle", "3000", self.row]
                .map(String::from)
                .to_vec(),
            plugin: Some(TRACE),
            limit: Duration::from_secs(180),
        };
        let booted = boot.run(bench)?;
        Ok(Traced {
            command: booted.command,
            trace: booted.counted.trace,
            failure: booted.failure,
        })
    }

    fn column(self, subject: &Subject, traced: Traced, path: Result<Path, String>) -> Column {
        let (rows, refused) = match path {
            Ok(path) => (rows(&path), None),
            Err(reason) => (Vec::new(), Some(refused(reason))),
        };
        Column {
            commands: vec![traced.command],
            failure: traced.failure.or(refused),
            rows,
            ..Column::new(self.head(), &subject.label)
        }
    }

    fn head(self) -> Head {
        let (name, row) = (self.arch.debian(), self.row);
        let (id, what) = if self.compat {
            ("-compat", " of a 32-bit program")
        } else {
            ("", "")
        };
        Head {
            id: format!("entry-{name}-way-{row}{id}"),
            title: format!("The way of {row}{what}, {name}"),
            unit: "before the function that does the work / from entry to return".into(),
            note: "As executed. The function is what the last indirect call goes to, or without one the first call behind the dispatch.".into(),
            ratios: false,
            mean: false,
            ..Head::default()
        }
    }
}

fn refused(reason: String) -> Failure {
    Failure {
        reason,
        console: String::new(),
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

/// The figures of a path.
fn rows(path: &Path) -> Vec<Row> {
    let part = |name: &str, tally| {
        figures(tally).map(|(kind, count)| Row::new(format!("{name}: {kind}"), "", count as f64))
    };
    let before = match path.to_function {
        0 => Vec::new(),
        _ => part("to the function", path.before()).to_vec(),
    };
    [before, part("all", path.whole()).to_vec()].concat()
}

/// The instructions, one per line, with an arrow after taken branches, and under the names of their
/// functions if these are known.
fn listing(label: &str, path: &Path, symbols: &Symbols) -> String {
    let mut text = format!("{label}\n");
    let mut function = None;
    for (place, step) in path.steps.iter().enumerate() {
        if place == path.to_function && place > 0 {
            text += "  the function that does the work:\n";
        }
        let now = symbols.name(step.pc);
        if now != function {
            text += &format!(" {}\n", now.as_deref().unwrap_or("?"));
            function = now;
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
