//! `docs/abi.md`, generated.

use core::fmt::{self, Write};

use crate::{CALLS, Status};

/// Writes the list of system calls as Markdown.
///
/// # Errors
/// Those of `out`.
pub fn document(out: &mut dyn Write) -> fmt::Result {
    let count =
        |wanted: fn(Status) -> bool| CALLS.iter().filter(|call| wanted(call.status)).count();
    writeln!(out, "# System calls\n")?;
    writeln!(
        out,
        "Generated from `crates/abi`. Numbers are the same on arm64 and RISC-V.\n"
    )?;
    writeln!(
        out,
        "{} whole, {} in part, {} absent (ENOSYS).\n",
        count(|status| status == Status::Whole),
        count(|status| matches!(status, Status::Partial(_))),
        count(|status| status == Status::Absent),
    )?;
    writeln!(
        out,
        "| number | name | status | what is missing |\n| ---: | --- | --- | --- |"
    )?;
    for call in CALLS {
        let (status, missing) = match call.status {
            Status::Whole => ("whole", ""),
            Status::Partial(missing) => ("partial", missing),
            Status::Absent => ("absent", ""),
        };
        writeln!(
            out,
            "| {} | {} | {status} | {missing} |",
            call.number, call.name
        )?;
    }
    Ok(())
}
