//! Writes `docs/abi.md`: generated lists, and parts written by hand, absent files (`absent.md`) and
//! the results of LTP (`ltp.md`).

use core::fmt::{self, Write};

use crate::options::{GROUPS, Group};
use crate::sysctl::{Form, SYSCTLS, Sysctl};
use crate::{CALLS, Call, Status, compat};

/// Writes the lists of system calls as Markdown.
///
/// # Errors
/// Those of `out`.
pub fn document(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "# System calls\n")?;
    writeln!(
        out,
        "Generated from `crates/linux-abi`. Numbers are the same on arm64 and RISC-V. What LTP says of\n\
         them stands at the end.\n"
    )?;
    list(out, CALLS)?;
    writeln!(out, "\n## 32-bit Arm programs\n")?;
    writeln!(
        out,
        "On arm64 CPUs that have AArch32 for programs. The last ones are Arm's private calls: their own\n\
         numbers begin at {:#x}, not at {}.\n",
        compat::PRIVATE_FIRST,
        compat::PRIVATE
    )?;
    list(out, compat::CALLS)?;
    writeln!(out, "\n## Options, commands and flags\n")?;
    writeln!(
        out,
        "What is not absent is accepted, and nothing else: the kernel takes its masks from these lists, or\n\
         the compiler compares what it handles with them. What is absent gets the error of a Linux that\n\
         was built without it."
    )?;
    for group in GROUPS {
        choices(out, group)?;
    }
    settings(out)?;
    write!(out, "\n{}", include_str!("absent.md"))?;
    write!(out, "\n{}", include_str!("ltp.md"))
}

/// Writes the list of the numbers in `/proc/sys`.
fn settings(out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "\n## Numbers in /proc/sys that can be changed\n")?;
    writeln!(
        out,
        "The kernel reads writes by this table. What is beyond a range is EINVAL. Other files of\n\
         `/proc/sys` tell what is so, and cannot be written, but `kernel/hostname`, `kernel/domainname`\n\
         and `kernel/core_pattern`. Of its letters a program to begin (`|`) is EINVAL.\n"
    )?;
    writeln!(
        out,
        "| file | kind | how many | least | most | mode |\n| --- | --- | ---: | ---: | ---: | --- |"
    )?;
    for file in SYSCTLS {
        let form = match file.form {
            Form::Int => "int",
            Form::Unsigned => "unsigned int",
            Form::Long => "unsigned long",
        };
        let Sysctl {
            path,
            count,
            least,
            most,
            mode,
            ..
        } = file;
        writeln!(
            out,
            "| {path} | {form} | {count} | {least} | {most} | {mode:04o} |"
        )?;
    }
    Ok(())
}

fn choices(out: &mut dyn Write, group: &Group) -> fmt::Result {
    writeln!(out, "\n### {}\n\nAbsent: {}.\n", group.title, group.refused)?;
    writeln!(
        out,
        "| number | name | status | what is missing |\n| ---: | --- | --- | --- |"
    )?;
    for choice in group.choices {
        let (status, missing) = words(choice.status);
        writeln!(
            out,
            "| {:#x} | {} | {status} | {missing} |",
            choice.value, choice.name
        )?;
    }
    Ok(())
}

/// The words for a status, and the missing parts.
fn words(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Whole => ("whole", ""),
        Status::Partial(missing) => ("partial", missing),
        Status::Absent => ("absent", ""),
    }
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
        let (status, missing) = words(call.status);
        writeln!(
            out,
            "| {} | {} | {status} | {missing} |",
            call.number, call.name
        )?;
    }
    Ok(())
}
