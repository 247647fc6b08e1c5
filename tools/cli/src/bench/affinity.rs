//! The suite `affinity`: the cost of a guest's exits, and how it grows with its virtual CPUs. The
//! VMM and the guest are our own (`programs/vmm`, `programs/guest-bench`), the same on each kernel.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::affinity_kernel;
use super::jobs::{self, Output};
use super::result::{Column, Failure, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::qemu::{Accel, Machine};
use crate::session::Session;
use crate::vm;

/// The numbers of virtual CPUs of the guests.
const SIZES: [u32; 8] = [2, 8, 16, 32, 64, 128, 256, 512];
/// The numbers with `--quick`.
const QUICK: [u32; 3] = [2, 16, 64];
/// Numbers of virtual CPUs at which their affinities are also scattered by the VMM, so that a
/// look-up has to hash them. Sixteen share a row, so there must be more than that.
const SPARSE: [u32; 3] = [32, 64, 512];
/// The number with `--quick`.
const QUICK_SPARSE: [u32; 1] = [64];
/// The number of the hypervisor's CPUs: one for the sender, and one for the receiver.
const CPUS: u32 = 2;
/// The counter advances by one tick per instruction, so that single operations are measured
/// exactly.
const CPU: &str = "neoverse-n1,cntfrq=1000000000";

/// A row of the guest's output that gets a table of its own.
struct Operation {
    name: &'static str,
    title: &'static str,
    /// Whether the terminal shows the table.
    shown: bool,
}

const fn operation(name: &'static str, title: &'static str, shown: bool) -> Operation {
    Operation { name, title, shown }
}

const OPERATIONS: [Operation; 17] = [
    operation("hvc", "a hypercall that is refused", true),
    operation("mmio_vgic", "a device read answered by the kernel", true),
    operation("mmio_vmm", "a device read answered by the VMM", true),
    operation("id_register", "a read of an ID register", true),
    operation("eoi", "end of an interrupt", false),
    operation("timer", "latency of the timer", false),
    operation("sgi_empty", "SGI to an empty list", false),
    operation("sgi_pending", "SGI made pending, no kick", true),
    operation("sgi_list_16", "SGI to a list of 16, no kick", true),
    operation("sgi_absent_16", "SGI to 16 CPUs that do not exist", true),
    operation("sgi_broadcast", "SGI to all, no kick", true),
    operation(
        "ipi_spinning_sender",
        "IPI to the last CPU, which spins: sender's trap",
        false,
    ),
    operation(
        "ipi_spinning_receiver",
        "IPI to the last CPU, which spins: receiver, exit to entry",
        false,
    ),
    operation("ipi_spinning", "IPI to the last CPU, which spins", true),
    operation(
        "ipi_asleep_sender",
        "IPI to the last CPU, in WFI: sender's trap",
        false,
    ),
    operation(
        "ipi_asleep_receiver",
        "IPI to the last CPU, in WFI: from then to its handler",
        false,
    ),
    operation("ipi_asleep", "IPI to the last CPU, in WFI", true),
];

/// The output of one guest, and how it was produced.
struct GuestOutput {
    vcpus: u32,
    sparse: bool,
    /// Names with minimum and median.
    rows: Vec<(String, f64, f64)>,
    command: String,
    failure: Option<Failure>,
}

/// Measures one kernel; after a guest that failed, no larger one is tried.
pub fn measure(bench: &Bench, subject: &Subject) -> Result<Vec<Column>> {
    let (sizes, sparse) = match bench.quick {
        true => (&QUICK[..], &QUICK_SPARSE[..]),
        false => (&SIZES[..], &SPARSE[..]),
    };
    let mut guests = Vec::new();
    for (sizes, sparse) in [(sizes, false), (sparse, true)] {
        for &vcpus in sizes {
            let said = run(bench, subject, vcpus, sparse)?;
            let failed = said.failure.is_some();
            guests.push(said);
            if failed {
                break;
            }
        }
    }
    let mut columns: Vec<_> = OPERATIONS
        .iter()
        .map(|operation| column(operation, subject, &guests))
        .collect();
    columns.push(affinity_kernel::measure(bench, subject));
    Ok(columns)
}

/// The title of an operation of the guest.
pub fn title(name: &str) -> Option<&'static str> {
    let operation = OPERATIONS.iter().find(|operation| operation.name == name)?;
    Some(operation.title)
}

/// A machine that can be a hypervisor, with this many CPUs and further options for QEMU.
pub fn machine<'b>(
    bench: &Bench<'b>,
    subject: &'b Subject,
    smp: u32,
    more: &[String],
) -> Machine<'b> {
    Machine {
        arch: Arch::Arm64,
        kernel: &subject.kernel,
        cpu: Some(bench.cpu.unwrap_or(CPU)),
        smp,
        memory: "1G",
        icount: true,
        as_shipped: true,
        accel: Accel::Tcg,
        debugger: None,
        disks: Vec::new(),
        shares: Vec::new(),
        append: subject.parameters.clone(),
        options: [&vm::HYPERVISOR.map(String::from), more].concat(),
    }
}

/// Runs the guest with this many virtual CPUs, whose affinities are consecutive or `sparse`.
pub fn run_guest(
    bench: &Bench,
    machine: &Machine,
    vcpus: u32,
    sparse: bool,
) -> Result<(Session, Output)> {
    let mut tree = guest::bare_tree(bench.project, Arch::Arm64)?;
    let words = vm::measuring_vmm(bench.project, &mut tree, vcpus, sparse)?;
    let jobs = [guest::job(words)];
    let mut session = guest::boot(bench.project, machine, &mut tree, &jobs, None)?;
    let limit = Duration::from_secs(60 + u64::from(vcpus));
    let output = jobs::collect(&mut session, limit)?;
    Ok((session, output))
}

/// Runs one guest.
fn run(bench: &Bench, subject: &Subject, vcpus: u32, sparse: bool) -> Result<GuestOutput> {
    let machine = machine(bench, subject, CPUS, &[]);
    let (_, output) = run_guest(bench, &machine, vcpus, sparse)?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let failure = match output.end {
        Err(failure) => Some(failure),
        Ok(_) if stdout.lines().any(|line| line == "# done") => None,
        Ok(end) => Some(Failure {
            reason: format!("{}: {end}", size(vcpus, sparse)),
            console: stdout.clone() + &String::from_utf8_lossy(&output.stderr),
        }),
    };
    Ok(GuestOutput {
        vcpus,
        sparse,
        rows: stdout.lines().filter_map(row).collect(),
        command: jobs::shown(bench, &machine),
        failure,
    })
}

/// A guest's size in the notation of reports.
fn size(vcpus: u32, sparse: bool) -> String {
    let affinities = if sparse { ", sparse" } else { "" };
    format!("{vcpus} vCPUs{affinities}")
}

/// A line of the guest's output: name, minimum and median.
fn row(line: &str) -> Option<(String, f64, f64)> {
    let words: Vec<_> = line.split(' ').collect();
    let [name, least, median] = words[..] else {
        return None;
    };
    Some((name.into(), least.parse().ok()?, median.parse().ok()?))
}

/// The figures of one operation, with a row for each size.
fn column(operation: &Operation, subject: &Subject, guests: &[GuestOutput]) -> Column {
    let row = |said: &GuestOutput| {
        let figures = said.rows.iter().find(|(name, ..)| name == operation.name);
        let remark = said.failure.as_ref().map(|failure| failure.reason.clone());
        // An operation may need more CPUs than the guest has.
        let is_said = figures.is_some() || remark.is_some();
        is_said.then(|| Row {
            name: size(said.vcpus, said.sparse),
            window: String::new(),
            value: figures.map(|(_, least, _)| *least),
            median: figures.map(|(.., median)| *median),
            remark,
        })
    };
    // A guest's failure is reported once, with the first operation.
    let is_first = operation.name == OPERATIONS[0].name;
    let failure = || guests.iter().find_map(|said| said.failure.clone());
    let head = Head {
        id: format!("affinity-{}", operation.name),
        title: format!("affinity: {}", operation.title),
        unit: "instructions of the whole machine an operation, least of the samples".into(),
        note: format!(
            "VMM and guest are our own; {CPUS} CPUs below the guest; the guest's own instructions \
             count too. Sparse: the VMM set MPIDR_EL1, sixteen at a time."
        ),
        ratios: true,
        mean: false,
        detail: !operation.shown,
        ..Head::default()
    };
    Column {
        commands: guests
            .first()
            .map(|said| said.command.clone())
            .into_iter()
            .collect(),
        failure: is_first.then(failure).flatten(),
        rows: guests.iter().filter_map(row).collect(),
        ..Column::new(head, &subject.label)
    }
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn the_guests_lines_are_understood() {
        assert_eq!(row("hvc 1182 1190"), Some(("hvc".into(), 1182.0, 1190.0)));
        assert_eq!(row("# guest-bench: 2 vCPUs"), None);
        assert_eq!(row("# done"), None);
    }
}
