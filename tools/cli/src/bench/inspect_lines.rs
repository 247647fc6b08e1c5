//! The lines of memory that a crossing shares between CPUs, and the code that touches them.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::Bench;
use super::counted::Touched;
use super::crossings_boot::Boot;
use super::crossings_output::{Parsed, Several};
use super::inspect::InspectOptions;
use super::subject;
use crate::project::progress;
use crate::symbols::Symbols;

/// Shows the shared lines of one row on each kernel.
pub fn show(bench: &Bench, options: &InspectOptions) -> Result<u8> {
    let mut documents = Vec::new();
    for subject in subject::subjects(&options.kernel, &[], &options.append, options.arch)? {
        progress(&format!("{} on two CPUs of {}", options.row, subject.label));
        let words = [
            "--batches",
            "1",
            "--settle",
            "3000",
            "--pause",
            "20",
            "--threads",
            "2",
            &options.row,
        ];
        let boot = Boot {
            subject: &subject,
            arch: options.arch,
            cpus: 2,
            arguments: words.map(String::from).to_vec(),
            plugin: Some(",instructions=off,lines=on"),
            limit: Duration::from_secs(180),
        };
        let booted = boot.run(bench)?;
        if let Some(failure) = &booted.failure {
            show!("{}: {}\n{}", subject.label, failure.reason, failure.console);
            continue;
        }
        let parsed = Parsed::parse(&booted.console);
        let symbols = Symbols::of(bench.project, &subject.kernel, options.arch);
        for Several {
            name,
            tags,
            operations,
            ..
        } in &parsed.several
        {
            let shared = booted.counted.shared(tags, *operations).unwrap_or_default();
            if options.json {
                let lines: Vec<_> = shared
                    .iter()
                    .map(|(line, touched)| document(line, touched, &symbols))
                    .collect();
                documents.push(json!({ "kernel": subject.label, "row": name, "lines": lines }));
                continue;
            }
            show!(
                "{}: {name}: {} lines in {} operations",
                subject.label,
                shared.len(),
                operations
            );
            for (line, touched) in shared {
                show!("  {}", describe(line, touched, &symbols));
            }
        }
    }
    if options.json {
        show!("{}", serde_json::to_string_pretty(&documents)?);
    }
    Ok(0)
}

/// The names of the touched data and of the code that touched it, where they are known.
fn names(touched: &Touched, symbols: &Symbols) -> [String; 2] {
    [&touched.address, &touched.instruction].map(|address| {
        let number = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap_or_default();
        symbols.name(number).unwrap_or_default()
    })
}

fn describe(line: &str, touched: &Touched, symbols: &Symbols) -> String {
    let Touched {
        loads,
        stores,
        stays,
        address,
        instruction,
    } = touched;
    let [object, code] = names(touched, symbols);
    format!(
        "{line}: {stays} stays, {loads} loads, {stores} stores; {address} {object} by {instruction} {code}"
    )
}

fn document(line: &str, touched: &Touched, symbols: &Symbols) -> serde_json::Value {
    let Touched {
        loads,
        stores,
        stays,
        address,
        instruction,
    } = touched;
    let [object, code] = names(touched, symbols);
    json!({
        "line": line, "stays": stays, "loads": loads, "stores": stores,
        "address": address, "object": object, "instruction": instruction, "code": code,
    })
}
