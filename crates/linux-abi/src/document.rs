//! `docs/abi.md`: the lists, which are generated, and what LTP says, which is written by hand in `ltp.md`.

use core::fmt::{self, Write};

use crate::{CALLS, Call, Status, compat};

/// Writes the lists of system calls as Markdown.
///
/// # Errors
/// Those of `out`.
pub fn document(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "# System calls\n")?;
    writeln!(
        out,
        "Generated from `crates/linux-abi`. Numbers are the same on arm64 and RISC-V. What LTP says of them stands at the end.\n"
    )?;
    list(out, CALLS)?;
    writeln!(out, "\n## 32-bit Arm programs\n")?;
    writeln!(
        out,
        "On arm64 CPUs that have AArch32 for programs. The last ones are Arm's private calls: their own numbers begin at \
         {:#x}, not at {}.\n",
        compat::PRIVATE_FIRST,
        compat::PRIVATE
    )?;
    list(out, compat::CALLS)?;
    write!(out, "\n{}", include_str!("ltp.md"))
}

fn list(out: &mut dyn Write, calls: &[Call]) -> fmt::Result {
    let count =
        |wanted: fn(Status) -> bool| calls.iter().filter(|call| wanted(call.status)).count();
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
    for call in calls {
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
