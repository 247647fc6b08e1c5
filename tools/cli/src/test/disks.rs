//! Disks of `stile run`: their names and rights, what is there after the machine was cut off, and
//! errors of a device.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::Report;
use super::command::command;
use crate::arch::Arch;
use crate::project::Project;

/// Bytes of the images.
const SIZE: u64 = 8 << 20;

/// Writes, waits until that is on the disk, says so, and goes on for longer than it may.
const CUT: &str = "echo kept | dd of=/dev/vda bs=4k seek=3 conv=notrunc,fsync 2>/dev/null
    echo mapped | dd of=/dev/vda bs=1M seek=5 conv=notrunc 2>/dev/null
    sync
    echo told
    sleep 1000";

/// The same with files: what fsync(2) and a rename after it said is there, and what was not asked
/// for may be.
const EXT4_CUT: &str = "mkfs.ext4 -q /dev/vda 2>/dev/null
    mkdir -p /mnt
    mount -t ext4 /dev/vda /mnt
    echo kept >/mnt/new
    /usr/bin/sync /mnt/new
    mv /mnt/new /mnt/name
    dd if=/dev/zero of=/mnt/zeroes bs=4k count=100 conv=fsync 2>/dev/null
    echo told
    while true; do
        dd if=/dev/zero of=/mnt/more bs=64k count=20 2>/dev/null
        mkdir /mnt/folder
        rm -r /mnt/more /mnt/folder
        sync
    done";

/// After the cut: the journal is replayed by the mount.
const EXT4_AFTER: &str = "mkdir -p /mnt
    mount -t ext4 /dev/vda /mnt
    cat /mnt/name
    md5sum </mnt/zeroes
    umount /mnt
    e2fsck -fn /dev/vda >/dev/null 2>&1
    echo $?";
const EXT4_KEPT: &str = "kept\na5dc382d75ec46434b313e289c281d8c  -\n0\n";

/// The second disk cannot be written, nor its node be opened by others than root.
const NAMES: &str = "head -n 1 /dev/vda; head -n 1 /dev/vdb
    blockdev --getro /dev/vda; blockdev --getro /dev/vdb
    echo x | dd of=/dev/vdb 2>&1 | grep -o 'not permitted'
    echo x >/dev/vda; echo $?
    su nobody -s /bin/sh -c 'cat /dev/vda' 2>&1 | grep -o 'Permission denied'";
const NAMED: &str = "first\nsecond\n0\n1\nnot permitted\n0\nPermission denied\n";

/// Sector 2048 cannot be read, sector 4096 not be written. Each error is told once.
const RULES: &str = "[inject-error]
event = \"read_aio\"
iotype = \"read\"
sector = \"2048\"
errno = \"5\"

[inject-error]
event = \"write_aio\"
iotype = \"write\"
sector = \"4096\"
errno = \"5\"
";
const BROKEN: &str = "dd if=/dev/vda of=/dev/null bs=4k count=256 2>/dev/null; echo $?
    dd if=/dev/vda of=/dev/null bs=4k skip=256 count=1 2>&1 | grep -o 'output error'
    dd if=/dev/vda of=/dev/null bs=4k skip=257 count=8 2>/dev/null; echo $?
    dd if=/dev/zero of=/dev/vda bs=4k seek=512 count=1 conv=notrunc,fsync 2>&1 | grep -o 'output error'
    dd if=/dev/zero of=/dev/vda bs=4k seek=600 count=1 conv=notrunc,fsync 2>/dev/null; echo $?
    sync; echo $?";
const ERRORS: &str = "0\noutput error\n0\noutput error\n0\n0\n";

/// Runs these tests.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    for (name, case) in [
        (
            "disk-cut",
            cut as fn(&Project, Arch, &Path) -> Result<Option<String>>,
        ),
        ("disk-names", names),
        ("disk-errors", errors),
        ("disk-ext4-cut", ext4_cut),
    ] {
        let name = format!("command/{}/{name}", arch.debian());
        if !report.wants(&name) {
            continue;
        }
        let folder = project
            .target
            .join(format!("tmp/{}", name.replace('/', "-")));
        fs::create_dir_all(&folder)?;
        match case(project, arch, &folder)? {
            None => report.passed(1),
            Some(how) => report.failed(&name, &how),
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// An image that begins with these bytes.
fn image(folder: &Path, name: &str, start: &[u8]) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, start)?;
    File::options().write(true).open(&path)?.set_len(SIZE)?;
    Ok(path)
}

fn run(project: &Project, arch: Arch, options: &[String], script: &str) -> Result<Output> {
    let output = command(project)?
        .args(["run", "--arch", arch.debian()])
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()?;
    Ok(output)
}

/// How a run differs from what it should have said.
fn differs(output: &Output, expected: &str) -> Option<String> {
    let (said, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(said);
    (said != expected).then(|| format!("{}: {said}\n{errors}", output.status))
}

/// What was said to be on the disk is there after the machine was killed.
fn cut(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let disk = format!("--disk={}", image.display());
    let options = [disk, "--timeout=40".into()];
    let output = run(project, arch, &options, CUT)?;
    let bytes = fs::read(&image)?;
    let there =
        bytes[3 * 4096..].starts_with(b"kept\n") && bytes[5 << 20..].starts_with(b"mapped\n");
    Ok(differs(&output, "told\n").or_else(|| (!there).then(|| "not on the disk".into())))
}

/// What a file system was told to keep is there after the machine was killed, and it is sound.
fn ext4_cut(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    File::options()
        .write(true)
        .open(&image)?
        .set_len(32 << 20)?;
    let package = ["--package", "e2fsprogs", "--package", "coreutils"].map(String::from);
    let disk = [format!("--disk={}", image.display())];
    let mut machine = command(project)?
        .args(["run", "--arch", arch.debian(), "--timeout=400"])
        .args(package.iter().chain(&disk))
        .args(["--", "sh", "-c", EXT4_CUT])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut told = String::new();
    if let Some(said) = machine.stdout.take() {
        BufReader::new(said).read_line(&mut told)?;
    }
    // In the midst of its work: the command kills the emulator.
    thread::sleep(Duration::from_secs(2));
    Command::new("kill")
        .arg(machine.id().to_string())
        .status()?;
    machine.wait()?;
    if told != "told\n" {
        return Ok(Some(format!("it said {told:?}")));
    }
    let after = run(project, arch, &[&package[..], &disk].concat(), EXT4_AFTER)?;
    Ok(differs(&after, EXT4_KEPT))
}

fn names(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let first = image(folder, "first", b"first\n")?;
    let second = image(folder, "second", b"second\n")?;
    let options = [
        format!("--disk={}", first.display()),
        format!("--disk={},ro", second.display()),
    ];
    Ok(differs(&run(project, arch, &options, NAMES)?, NAMED))
}

fn errors(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let rules = folder.join("rules");
    fs::write(&rules, RULES)?;
    let node = format!(
        "--qemu-opts=-blockdev driver=raw,node-name=bad,file.driver=blkdebug,file.config={},\
         file.image.driver=file,file.image.filename={} -device virtio-blk-device,drive=bad",
        rules.display(),
        image.display()
    );
    Ok(differs(&run(project, arch, &[node], BROKEN)?, ERRORS))
}
