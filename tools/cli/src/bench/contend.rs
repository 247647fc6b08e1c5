//! The threads of `idreg`: all read an ID register at once. Times, so noise.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::boot::Boot;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;

/// CPUs of the machine, and so the most threads.
const CPUS: u32 = 8;
/// How often each thread reads: few enough for the contended case to end on an emulator.
const READS: u32 = 20_000;

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Column> {
    let contend = format!("{CPUS},{READS}");
    let boot = Boot {
        subject,
        arch,
        cpus: CPUS,
        arguments: ["--settle", "1000", "--contend", &contend]
            .map(String::from)
            .to_vec(),
        plugin: None,
        limit: Duration::from_secs(90),
    };
    let booted = boot.run(bench)?;
    Ok(Column {
        head: Head {
            id: format!("idreg-{}-threads", arch.debian()),
            title: format!("idreg: threads that read at once, {}", arch.debian()),
            unit: "milliseconds: NOISE, of one run on a host with fewer CPUs than the machine"
                .into(),
            note: format!("Each thread reads ID_AA64ISAR0_EL1 {READS} times on a CPU of its own."),
            ratios: true,
            mean: false,
            detail: false,
        },
        label: subject.label.clone(),
        kernel: String::new(),
        commands: vec![booted.command],
        failure: booted.failure,
        rows: booted.console.lines().filter_map(rows).flatten().collect(),
    })
}

/// The rows of one line of the program's.
fn rows(line: &str) -> Option<[Row; 2]> {
    let words: Vec<_> = line.split(' ').collect();
    let [
        "#",
        "contend",
        threads,
        "reads",
        _,
        "real",
        real,
        "user",
        _,
        "system",
        system,
    ] = words[..]
    else {
        return None;
    };
    let row = |what: &str, nanoseconds: &str| {
        let time = nanoseconds.parse::<f64>().ok()? / 1e6;
        Some(Row::new(
            format!("{threads} threads: {what}"),
            "",
            time.round(),
        ))
    };
    Some([row("real", real)?, row("system", system)?])
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn the_programs_line_is_understood() {
        let [real, system] =
            rows("# contend 4 reads 20000 real 100600000 user 1 system 400000000").unwrap();
        assert_eq!(
            (real.name.as_str(), real.value),
            ("4 threads: real", Some(101.0))
        );
        assert_eq!(system.value, Some(400.0));
        assert!(rows("# done").is_none());
    }
}
