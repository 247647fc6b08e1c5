//! The suite `sizes`: operations among 1 to 10,000 objects of a kind, and transfers of 1 byte to 64
//! MiB, by `programs/sizes`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::jobs::{Jobs, Output};
use super::report::figure;
use super::result::{Column, Head, Mark, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::toolchain;

/// The row that copies in the program: the minimum cost of the others' copies.
const COPY: &str = "copy";

/// The maximum processor time for a row with all its sizes.
const LIMIT: Duration = Duration::from_secs(600);

/// A row at one size.
struct Point {
    row: String,
    size: u64,
    /// Instructions per operation.
    value: Option<f64>,
    median: Option<f64>,
    /// Why there is no value.
    remark: Option<String>,
    /// The minimum number of times that each byte is copied; none if the size is a number of
    /// objects.
    copies: Option<f64>,
    about: String,
}

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::tree(bench.project, arch)?;
    let program = toolchain::program(bench.project, arch, "sizes")?;
    tree.file("usr/bin/sizes", &program)?;
    let jobs = Jobs {
        subject,
        arch,
        limit: LIMIT,
    };
    // Each row is a job, so that the machine is started again for the others if one ends it.
    let nothing = Column::new(Head::default(), &subject.label);
    let mut column = nothing.clone();
    let list = guest::job(["sizes", "--list"]);
    let known = jobs.run(
        bench,
        &mut tree,
        &list,
        std::slice::from_ref(&list),
        &mut column,
    )?;
    let names = names(bench, &known)?;
    let quick = if bench.quick { "--quick" } else { "" };
    let job = |name: &String| guest::job(["sh", "-c", &format!("exec sizes {quick} {name}")]);
    let first = guest::job(["sh", "-c", "sleep 3; sizes --raise"]);
    let all: Vec<_> = names.iter().map(job).collect();
    let mut column = nothing;
    let outputs = jobs.run(bench, &mut tree, &first, &all, &mut column)?;
    let pairs = names.iter().zip(&outputs);
    let points: Vec<_> = pairs
        .flat_map(|(name, output)| points(name, output))
        .collect();
    let tables = tables(&points, arch);
    Ok(tables
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(head, rows)| Column {
            head,
            rows,
            ..column.clone()
        })
        .collect())
}

/// The rows to measure: all, unless some are named.
fn names(bench: &Bench, known: &[Output]) -> Result<Vec<String>> {
    let said = known.first().context("the list is one job")?;
    let text = String::from_utf8_lossy(&said.stdout);
    let known: Vec<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.to_owned()))
        .collect();
    if known.is_empty() {
        let end = match &said.end {
            Ok(end) => end,
            Err(failure) => &failure.reason,
        };
        bail!("programs/sizes has no rows: {end}");
    }
    if let Some(name) = bench.rows.iter().find(|name| !known.contains(name)) {
        bail!(
            "{name}: no row of programs/sizes, which has {}",
            known.join(" ")
        );
    }
    // The cost of copies is needed for every row that copies.
    let wanted = |name: &String| bench.rows.contains(name) || name == COPY;
    Ok(known
        .into_iter()
        .filter(|name| bench.rows.is_empty() || wanted(name))
        .collect())
}

/// The points in the output of a row, one per line. If the machine ended before, there is one
/// without a figure.
fn points(name: &str, output: &Output) -> Vec<Point> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut points: Vec<_> = text.lines().filter_map(point).collect();
    let bad = match &output.end {
        Ok(end) if end == "exit status 0" => None,
        Ok(end) => Some(end.clone()),
        Err(failure) => Some(failure.reason.clone()),
    };
    if let Some(remark) = bad {
        points.push(Point {
            row: name.into(),
            size: 0,
            value: None,
            median: None,
            remark: Some(remark),
            copies: None,
            about: String::new(),
        });
    }
    points
}

fn point(line: &str) -> Option<Point> {
    let mut words = line.splitn(7, ' ');
    let mut next = || words.next();
    let (row, size) = (next()?.to_owned(), next()?.parse().ok()?);
    let (least, median, kind, copies) = (next()?, next()?, next()?, next()?);
    Some(Point {
        row,
        size,
        value: least.parse().ok(),
        median: median.parse().ok(),
        remark: (least == "-").then(|| median.to_owned()),
        copies: (kind == "bytes").then(|| copies.parse().unwrap_or(0.0)),
        about: next()?.to_owned(),
    })
}

/// The tables of one kernel.
fn tables(points: &[Point], arch: Arch) -> Vec<(Head, Vec<Row>)> {
    let name = arch.debian();
    let head = |id: &str, title: &str, unit: &str, note: &str, mark| Head {
        id: format!("sizes-{name}{id}"),
        title: format!("{title}, {name}"),
        unit: unit.into(),
        note: note.into(),
        ratios: id != "-growth",
        mark,
        ..Head::default()
    };
    let unit = "instructions an operation, of program and kernel, least of the batches";
    let (bytes, objects): (Vec<_>, Vec<_>) =
        points.iter().partition(|point| point.copies.is_some());
    let copies: BTreeMap<u64, f64> = points
        .iter()
        .filter(|point| point.row == COPY)
        .filter_map(|point| Some((point.size, point.value?)))
        .collect();
    // The cost beyond that of copies, at least one instruction.
    let beyond: Vec<_> = bytes
        .iter()
        .filter(|point| point.row != COPY)
        .map(|point| {
            let ideal = copies.get(&point.size).copied().unwrap_or(0.0);
            let least = point.copies.unwrap_or(0.0) * ideal;
            Point {
                row: point.row.clone(),
                size: point.size,
                value: point.value.map(|value| (value - least).max(1.0)),
                median: None,
                remark: point.remark.clone(),
                copies: point.copies,
                about: format!("copies: {}", point.copies.unwrap_or(0.0)),
            }
        })
        .collect();
    let growing: Vec<_> = objects.iter().copied().chain(&beyond).collect();
    vec![
        (
            head(
                "",
                "Sizes: operations among many objects",
                unit,
                "The number after a row's name is N.",
                Mark::AboveHalf,
            ),
            objects.iter().map(|point| point.row()).collect(),
        ),
        (
            head(
                "-bytes",
                "Sizes: transfers of many bytes",
                unit,
                "The number after a row's name is N, in bytes.",
                Mark::None,
            ),
            bytes.iter().map(|point| point.row()).collect(),
        ),
        (
            head(
                "-beyond",
                "Sizes: transfers beyond their copies",
                unit,
                "Without the copies that there must be, at what the row copy costs in the program.",
                Mark::AboveHalf,
            ),
            beyond.iter().map(Point::row).collect(),
        ),
        (
            head(
                "-growth",
                "Sizes: growth",
                "exponent between the two largest sizes",
                "0 does not grow, 1 is proportional; of transfers without their copies.",
                Mark::Steeper,
            ),
            growth(&growing),
        ),
    ]
}

/// The exponent of each row between its two largest sizes.
fn growth(points: &[&Point]) -> Vec<Row> {
    let step = |pair: &[&Point]| {
        let [one, other] = pair else { return None };
        let (first, last) = (one.value?, other.value?);
        let grown = (other.size as f64 / one.size as f64).ln();
        let sizes = [one.size, other.size].map(|size| figure(size as f64));
        let name = format!("{} {} to {}", one.row, sizes[0], sizes[1]);
        Some(Row::new(name, "", (last / first).ln() / grown))
    };
    points
        .chunk_by(|one, other| one.row == other.row)
        .filter_map(|row| step(row.get(row.len().checked_sub(2)?..)?))
        .collect()
}

impl Point {
    fn row(&self) -> Row {
        Row {
            name: format!("{} {}", self.row, figure(self.size as f64)),
            window: self.about.clone(),
            value: self.value,
            median: self.median,
            remark: self.remark.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "poll 10 20.0 21.0 objects 0 of N\npoll 100 200.0 201.0 objects 0 of N\n\
        poll 1000 - errno-24 objects 0 of N\ncopy 64 50.0 50.0 bytes 1 by itself\n\
        pipe 64 140.0 150.0 bytes 2 through a pipe\nnoise\n";

    fn said() -> Vec<Point> {
        SAID.lines().filter_map(point).collect()
    }

    #[test]
    fn lines_are_understood() {
        let points = said();
        assert_eq!(points.len(), 5);
        assert_eq!((points[0].value, points[0].copies), (Some(20.0), None));
        assert_eq!(points[2].remark.as_deref(), Some("errno-24"));
        assert_eq!(points[4].about, "through a pipe");
    }

    #[test]
    fn copies_are_taken_off_and_growth_is_an_exponent() {
        let tables = tables(&said(), Arch::Arm64);
        let [objects, bytes, beyond, growth] = &tables[..] else {
            panic!("{} tables", tables.len())
        };
        assert_eq!((objects.1.len(), bytes.1.len()), (3, 2));
        assert_eq!(beyond.1[0].value, Some(40.0));
        // The largest size has no figure.
        assert!(growth.1.is_empty());
        let points = said();
        let [one, other, ..] = &points[..] else {
            panic!("no points")
        };
        assert_eq!(super::growth(&[one, other])[0].value, Some(1.0));
    }
}
