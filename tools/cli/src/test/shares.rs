//! `stile run --share`: the guest reads and writes a folder of this machine, but for `,ro`; users
//! of the guest do not get at each other's files by names that changed.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::Result;

use super::Report;
use super::command::{differs, run_script};
use crate::arch::Arch;
use crate::project::Project;

const SCRIPT: &str = "cat /own/file; echo guest >/own/new; cat '/host/read,only/file'
    touch '/host/read,only/new' 2>&1 | grep -o 'Read-only file system'
    mount -o remount,rw '/host/read,only'; touch '/host/read,only/new' 2>&1 | grep -o Read-only";
const EXPECTED: &str = "host\nkept\nRead-only file system\nRead-only\n";

/// One folder twice: what happens in `/b` happens on the host for `/a`. What was opened, or is the
/// working directory, lost its name to another file, which must stay as it is. The file that one
/// opens with O_CREAT and O_APPEND is also added to by the other. A link leads to files of the
/// guest.
const TAKEN: &str = "cd /a
    fresh() { rm -f f g; echo old >f; echo new >g; exec 3<>f; }
    try() {
        chmod 600 /proc/self/fd/3; touch -d @1 /proc/self/fd/3; truncate -s 0 /proc/self/fd/3
        echo more >>/proc/self/fd/3
    }
    tell() { grep -c Stale; stat -c '%a' f; cat f; [ $(stat -c '%Y' f) -gt 1 ] && echo late; }
    echo == moved; fresh; mv g f; try 2>&1 | tell
    echo == moved on the host; fresh; mv /b/g /b/f; try 2>&1 | tell
    echo == made anew; fresh; rm f; echo new >f; try 2>&1 | tell
    echo == made anew on the host; fresh; rm /b/f; echo new >/b/f; try 2>&1 | tell
    echo == read; cat <&3; exec 3<&-
    mkdir d; cd d; rmdir /a/d; mkdir /a/d; chmod 700 . 2>&1 | grep -o Stale; cd /a; stat -c '%a' d
    add() { exec >>$1/log; i=0; while [ $i -lt 500 ]; do echo line; i=$((i + 1)); done; }
    add /a & add /b & wait; wc -l <log
    cat out /a/away 2>&1 | grep -c 'No such file'
    ls many | wc -l; ls many | sort -u | md5sum";
const OTHERS: &str = "== moved\n4\n644\nnew\nlate\n== moved on the host\n4\n644\nnew\nlate\n\
    == made anew\n4\n644\nnew\nlate\n== made anew on the host\n4\n644\nnew\nlate\n\
    == read\nold\nStale\n755\n1000\n2\n10000\n\
    a22696fc98a8cfb6375d9f6349d01041  -\n";
/// More names than one reply has.
const MANY: usize = 10_000;

/// Runs these tests.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    rights(project, arch, report)?;
    taken(project, arch, report)
}

fn taken(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let name = format!("command/{}/share-taken", arch.debian());
    if !report.wants(&name) {
        return Ok(());
    }
    let folder = project
        .target
        .join(format!("tmp/{}", name.replace('/', "-")));
    let own = folder.join("own");
    fs::create_dir_all(own.join("many"))?;
    for number in 0..MANY {
        fs::write(own.join(format!("many/{number}")), "")?;
    }
    fs::write(folder.join("secret"), "secret\n")?;
    symlink("../secret", own.join("out"))?;
    symlink(folder.join("secret"), own.join("away"))?;
    let shares = ["a", "b"].map(|place| format!("--share={}:/{place}", own.display()));
    let output = run_script(project, arch, &shares, TAKEN)?;
    match differs(&output, OTHERS) {
        None => report.passed(1),
        Some(how) => report.failed(&name, &how),
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn rights(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
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
