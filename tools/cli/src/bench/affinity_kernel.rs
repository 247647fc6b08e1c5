//! Suite `affinity`: the kernel's share of a guest's exits, without the instructions of the guest
//! and the VMM. The plugin counts them, by phases that the guest marks.

use anyhow::{Result, bail};

use super::Bench;
use super::affinity;
use super::counted::{self, Counted};
use super::jobs;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::session::Folder;

/// The plugin's counter of kernel instructions: the guest and the VMM run in the lower half of the
/// address space, and are not counted.
const KERNEL: &str = "instructions.kernel";

/// Measures one kernel, with a guest of one virtual CPU on one CPU.
pub fn measure(bench: &Bench, subject: &Subject) -> Column {
    let head = Head {
        id: "affinity-kernel".into(),
        title: "affinity: the kernel's share of an exit".into(),
        unit: "instructions of the kernel an operation, least of the samples".into(),
        note:
            "One virtual CPU on one CPU. Neither the guest's nor the VMM's own instructions count."
                .into(),
        ratios: true,
        mean: false,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| run(bench, subject, column))
}

fn run(bench: &Bench, subject: &Subject, column: &mut Column) -> Result<()> {
    let folder = Folder::new(bench.project.cache.join("run"))?;
    let counts = folder.file("counts");
    let plugin = counted::plugin(bench.project)?;
    let plugin = format!("file={},out={}", plugin.display(), counts.display());
    let machine = affinity::machine(bench, subject, 1, &["-plugin".into(), plugin]);
    let (mut session, output) = affinity::run_guest(bench, &machine, 1, false)?;
    counted::await_end(&mut session)?;
    column.commands.push(jobs::shown(bench, &machine));
    column.failure = output.end.err();
    let counted = Counted::read(&counts)?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    column.rows = stdout
        .lines()
        .filter_map(Phases::of)
        .map(|phases| phases.row(&counted))
        .collect();
    if column.rows.is_empty() && column.failure.is_none() {
        bail!("the guest measured nothing");
    }
    Ok(())
}

/// A line of the guest's output: the phases in which something was measured, one for each sample.
#[derive(PartialEq, Eq, Debug)]
struct Phases<'a> {
    first: u32,
    count: u32,
    name: &'a str,
    /// The number of operations in a sample.
    batch: u64,
}

impl<'a> Phases<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let ["phases", first, count, name, batch] = words[..] else {
            return None;
        };
        Some(Self {
            first: first.parse().ok()?,
            count: count.parse().ok()?,
            name,
            batch: batch.parse().ok()?,
        })
    }

    fn row(&self, counted: &Counted) -> Row {
        let mut samples: Vec<_> = (self.first..self.first + self.count)
            .map(|tag| counted.phase(tag, &[KERNEL]))
            .collect();
        samples.sort_unstable();
        let each = |at: usize| {
            let sample = samples.get(at)?;
            Some((*sample as f64 / self.batch as f64).round())
        };
        Row {
            name: affinity::title(self.name).unwrap_or(self.name).into(),
            window: String::new(),
            value: each(0),
            median: each(samples.len() / 2),
            remark: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Phases;

    #[test]
    fn the_guests_phases_are_understood() {
        let phases = Phases::of("phases 97 48 mmio_vmm 16");
        let expected = Phases {
            first: 97,
            count: 48,
            name: "mmio_vmm",
            batch: 16,
        };
        assert_eq!(phases, Some(expected));
        assert_eq!(Phases::of("mmio_vmm 1182 1190"), None);
    }
}
