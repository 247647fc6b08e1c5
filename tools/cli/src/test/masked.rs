//! `stile bench masked`: the maximum number of instructions for which the kernel keeps interrupts
//! masked while the test programs run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::case::{self, Case};
use super::machines;
use super::programs::{boot, collect};
use crate::arch::Arch;
use crate::bench::counted;
use crate::kernel_image::Kernel;
use crate::project::{Project, progress};
use crate::session::Folder;
use crate::symbols::Symbols;

/// The number of programs that one machine runs: few, so that the cause of a program's cost to a
/// later one is near.
const EACH: usize = 16;
/// The time limit for a program under the plugin.
const LIMIT: Duration = Duration::from_secs(600);
/// The number of stretches shown per program.
const TOLD: usize = 3;

/// A stretch in the plugin's output.
#[derive(Deserialize)]
struct Stretch {
    program: usize,
    masked: u64,
    end: String,
    blocks: Vec<(String, u64)>,
}

/// The cases that [`too_long`] runs: objects that an ordinary user can make large, and work that is
/// done in parts.
const LARGE: [&str; 13] = [
    "hostile-areas",
    "hostile-deep",
    "hostile-fork",
    "hostile-heaped",
    "hostile-lost",
    "hostile-many",
    "hostile-mounts",
    "hostile-nested",
    "hostile-protect",
    "hostile-signalled",
    "hostile-unheard",
    "hostile-walked",
    "hostile-whole",
];
/// The maximum length of a stretch in these cases.
const LONGEST: u64 = 2_000_000;

/// Runs the cases whose names contain one of `names`, or all without packages if it is empty.
/// Prints the longest stretches of each, and the longest of all.
pub fn masked(project: &Project, arch: Arch, names: &[String]) -> Result<u8> {
    let wanted = |case: &Case| is_wanted(case, arch, names);
    let mut longest: Option<(u64, String)> = None;
    measure(project, arch, wanted, |case, of_program| {
        for stretch in &of_program[..of_program.len().min(TOLD)] {
            show!("{case}: {}", stretch.text);
            let of_case = (case != BOOT).then(|| (stretch.masked, case.to_owned()));
            longest = longest.take().max(of_case);
        }
    })?;
    if let Some((masked, case)) = longest {
        show!("longest but for the start: {masked}, in {case}");
    }
    Ok(0)
}

/// Whether a case can run under the plugin, and has one of the names, or needs no packages if there
/// are none.
pub(super) fn is_wanted(case: &Case, arch: Arch, names: &[String]) -> bool {
    let named = names.iter().any(|part| case.name.contains(part.as_str()));
    let any = names.is_empty() && case.minutes.is_none() && !case.long && !case.terminal;
    (named || any && case.packages.is_empty())
        && case.only.is_none_or(|only| only == arch)
        && case.machine.is_none()
        && !case.hypervisor
}

/// The stretches of [`LARGE`] that are too long, if there are any.
pub fn too_long(project: &Project, arch: Arch) -> Result<Option<String>> {
    let mut long = Vec::new();
    let wanted = |case: &Case| LARGE.contains(&case.name.as_str());
    measure(project, arch, wanted, |case, of_program| {
        let of_program = of_program
            .iter()
            .filter(|stretch| case != BOOT && stretch.masked > LONGEST);
        long.extend(of_program.map(|stretch| format!("{case}: {}", stretch.text)));
    })?;
    Ok((!long.is_empty()).then(|| long.join("\n")))
}

/// Runs the cases that are `wanted`, and calls `see` with the stretches of each, longest first.
fn measure(
    project: &Project,
    arch: Arch,
    wanted: impl FnMut(&Case) -> bool,
    mut see: impl FnMut(&str, &[StretchText]),
) -> Result<()> {
    run(project, arch, "masked", wanted, |cases, text| {
        report_stretches(project, arch, cases, text, &mut see)
    })
}

/// Runs the cases that are `wanted` under the plugin with the option `measured`, several on a
/// machine, and calls `see` with those of each machine and what the plugin wrote.
pub(super) fn run(
    project: &Project,
    arch: Arch,
    measured: &str,
    wanted: impl FnMut(&Case) -> bool,
    mut see: impl FnMut(&[&Case], &str) -> Result<()>,
) -> Result<()> {
    let setting = machines::first(arch).context("there is no such machine")?;
    let cases: Vec<Case> = case::all(project)?.into_iter().filter(wanted).collect();
    let plugin = counted::plugin(project)?;
    let alike = |one: &&Case, other: &&Case| {
        (&one.packages, &one.memory) == (&other.packages, &other.memory)
    };
    let cases: Vec<&Case> = cases.iter().collect();
    for cases in cases.chunk_by(alike).flat_map(|cases| cases.chunks(EACH)) {
        let folder = Folder::new(project.cache.join("run"))?;
        let out = folder.file(measured);
        let (plugin, to) = (plugin.display(), out.display());
        let plugin = format!("file={plugin},{measured}=on,out={to}");
        let more = ["-plugin".to_owned(), plugin];
        let mut session = boot(project, &Kernel::Stile, &setting, cases, &more)?;
        for case in cases {
            progress(&case.name);
            if collect(&mut session, Instant::now() + LIMIT).end.is_err() {
                show!("{}: lost with the machine", case.name);
                break;
            }
        }
        counted::await_end(&mut session)?;
        let text = fs::read_to_string(&out).unwrap_or_default();
        see(cases, &text)?;
    }
    Ok(())
}

/// The name of the time before the first program.
const BOOT: &str = "boot";

/// A stretch, and its description.
struct StretchText {
    masked: u64,
    text: String,
}

/// Reports the stretches of the cases' machine.
fn report_stretches(
    project: &Project,
    arch: Arch,
    cases: &[&Case],
    text: &str,
    see: &mut impl FnMut(&str, &[StretchText]),
) -> Result<()> {
    let symbols = Symbols::of(project, &Kernel::Stile, arch);
    let name = |address: &str| {
        let digits = address.trim_start_matches("0x");
        let number = u64::from_str_radix(digits, 16).unwrap_or(0);
        symbols.name(number).unwrap_or_else(|| address.to_owned())
    };
    let mut stretches: Vec<Stretch> = Vec::new();
    for line in text.lines() {
        stretches.push(serde_json::from_str(line)?);
    }
    stretches.sort_by_key(|stretch| (stretch.program, std::cmp::Reverse(stretch.masked)));
    for of_program in stretches.chunk_by(|one, other| one.program == other.program) {
        let case = of_program[0].program.checked_sub(1);
        let case = case.and_then(|place| cases.get(place));
        let texts = of_program.iter().map(|stretch| {
            let mut functions = BTreeMap::<String, u64>::new();
            for (block, count) in &stretch.blocks {
                *functions.entry(name(block)).or_default() += count;
            }
            let mut functions: Vec<_> = functions.into_iter().collect();
            functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let functions: Vec<_> = functions
                .iter()
                .take(4)
                .map(|(name, count)| format!("{name} {}%", 100 * count / stretch.masked))
                .collect();
            let (masked, end) = (stretch.masked, name(&stretch.end));
            let text = format!("{masked} until {end}: {}", functions.join(", "));
            StretchText { masked, text }
        });
        let texts: Vec<_> = texts.collect();
        see(case.map_or(BOOT, |case| &case.name), &texts);
    }
    Ok(())
}
