//! `stile run --share`: the guest reads and writes a folder of this machine, but for `,ro`.

use std::fs;

use anyhow::Result;

use super::Report;
use super::command::{differs, run_script};
use crate::arch::Arch;
use crate::project::Project;

const SCRIPT: &str = "cat /own/file; echo guest >/own/new; cat '/host/read,only/file'
    touch '/host/read,only/new' 2>&1 | grep -o 'Read-only file system'
    mount -o remount,rw '/host/read,only'; touch '/host/read,only/new' 2>&1 | grep -o Read-only";
const EXPECTED: &str = "host\nkept\nRead-only file system\nRead-only\n";

/// Runs this test.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let name = format!("command/{}/share", arch.debian());
    if !report.wants(&name) {
        return Ok(());
    }
    let folder = project
        .target
        .join(format!("tmp/{}", name.replace('/', "-")));
    let (own, kept) = (folder.join("own"), folder.join("read,only"));
    fs::create_dir_all(&own)?;
    fs::create_dir_all(&kept)?;
    fs::write(own.join("file"), "host\n")?;
    fs::write(kept.join("file"), "kept\n")?;
    let options = [
        format!("--share={}:/own", own.display()),
        format!("--share={},ro", kept.display()),
    ];
    let output = run_script(project, arch, &options, SCRIPT)?;
    let came = fs::read_to_string(own.join("new")).unwrap_or_default();
    let wrong = (came != "guest\n").then(|| format!("the host reads {came:?}"));
    match differs(&output, EXPECTED).or(wrong) {
        None => report.passed(1),
        Some(how) => report.failed(&name, &how),
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}
