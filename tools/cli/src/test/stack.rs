//! `stile bench stack`: how deep the kernel's stacks become in each system call while the test
//! programs run.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Deserialize;

use super::masked;
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::project::Project;
use crate::symbols::Symbols;

/// The greatest depth in a call, in the plugin's output; without a number, outside of calls.
#[derive(Deserialize)]
struct Deepest {
    call: Option<u64>,
    bytes: u64,
    block: String,
}

/// Runs the cases whose names contain one of `names`, or all without packages if it is empty, and
/// prints the depths.
pub fn stack(project: &Project, arch: Arch, names: &[String]) -> Result<u8> {
    let mut calls = BTreeMap::<Option<u64>, Deepest>::new();
    let wanted = |case: &super::case::Case| masked::is_wanted(case, arch, names);
    masked::run(project, arch, "stack", wanted, |_, text| {
        for line in text.lines() {
            let found: Deepest = serde_json::from_str(line)?;
            let known = calls.get(&found.call).map_or(0, |known| known.bytes);
            if found.bytes > known {
                calls.insert(found.call, found);
            }
        }
        Ok(())
    })?;
    let mut rows: Vec<_> = calls.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    print(project, arch, &rows)?;
    Ok(0)
}

fn print(project: &Project, arch: Arch, rows: &[Deepest]) -> Result<()> {
    let symbols = Symbols::of(project, &Kernel::Stile, arch);
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["system call", "bytes", "in"]);
    for row in rows {
        let call = match row.call {
            Some(number) => {
                let known = abi::CALLS.iter();
                let mut known = known.filter(|call| u64::from(call.number) == number);
                known
                    .next()
                    .map_or(number.to_string(), |call| call.name.to_owned())
            }
            None => "none".to_owned(),
        };
        let block = u64::from_str_radix(row.block.trim_start_matches("0x"), 16);
        let block = block.context("an address of the plugin")?;
        let function = symbols.name(block).unwrap_or_else(|| row.block.clone());
        table.add_row([call, row.bytes.to_string(), function]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.lines() {
        show!("{}", line.trim_end());
    }
    Ok(())
}
