//! Disks of `stile run`: their names and permissions, what is on them after the machine was cut
//! off, and device errors.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::Report;
use super::command::{command, differs, run_script};
use crate::arch::Arch;
use crate::project::Project;

/// The size of the images in bytes.
const SIZE: u64 = 8 << 20;

/// Writes, waits until the data is on the disk, reports that, and continues for longer than it is
/// allowed to.
const CUT: &str = "echo kept | dd of=/dev/vda bs=4k seek=3 conv=notrunc,fsync 2>/dev/null
    echo mapped | dd of=/dev/vda bs=1M seek=5 conv=notrunc 2>/dev/null
    sync
    echo told
    sleep 1000";

/// The same with files: data is on the disk after fsync(2) or after a rename that followed it; data
/// that was not synced may be.
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

/// A root with a shell.
const ROOT_MADE: &str =
    "mkfs.ext4 -q /dev/vda 2>/dev/null; mkdir -p /mnt; mount -t ext4 /dev/vda /mnt
    cd /mnt; mkdir bin dev etc proc sys; cp /bin/busybox bin
    for name in sh cat grep hostname ls mkdir; do ln -s busybox bin/$name; done
    echo on-disk >etc/hostname; echo made";
const ROOT_USED: &str = "hostname; ls /; grep -o '^/dev/vda / ext4 rw' /proc/mounts; ls /stile
    cat /host/none; test -c /dev/null && echo devices; pwd; echo kept >/kept; echo $$ >/dev/null";
const ROOT_READ: &str = "cat /kept; echo x >/new; grep -o '^/dev/vda / ext4 ro' /proc/mounts";

/// The same on an image that is only read.
const EROFS_MADE: &str = "mkdir -p t/bin t/dev t/etc t/proc t/run t/sys; cp /bin/busybox t/bin
    for name in sh cat grep hostname; do ln -s busybox t/bin/$name; done
    echo in-image >t/etc/hostname; mkfs.erofs --quiet /dev/vda t; echo made";
const EROFS_USED: &str = "hostname; (echo x >/new) 2>/dev/null; echo $?; echo $$ >/dev/null
    grep -o '^/dev/vda / erofs ro' /proc/mounts; pwd";

/// Options without an effect are refused, where Linux has them too; and what is not ext4.
const EXT4_OPTIONS: &str = "mkdir -p /mnt
    say() { mount -t ext4 $1 /dev/vda /mnt 2>/dev/null && umount /mnt; echo $1 $?; }
    say -osync
    mkfs.ext4 -q /dev/vda 2>/dev/null
    for option in lazytime mand acl nouser_xattr nobarrier barrier=0 delalloc noauto_da_alloc \
        data=journal data=writeback journal_checksum commit=9 discard usrquota errors=panic dax \
        stripe=16 resuid=5 barrier=1 user_xattr data=ordered errors=continue sync,dirsync; do
        say -o$option
    done
    mount -t ext4 /dev/vda /mnt
    for option in lazytime mand delalloc dirsync; do
        mount -o remount,$option /mnt 2>/dev/null; echo $option $?
    done
    umount /mnt";
const EXT4_OPTED: &str = "-osync 255
-olazytime 255
-omand 255
-oacl 255
-onouser_xattr 255
-onobarrier 255
-obarrier=0 255
-odelalloc 255
-onoauto_da_alloc 255
-odata=journal 255
-odata=writeback 255
-ojournal_checksum 255
-ocommit=9 255
-odiscard 255
-ousrquota 255
-oerrors=panic 255
-odax 255
-ostripe=16 255
-oresuid=5 255
-obarrier=1 0
-ouser_xattr 0
-odata=ordered 0
-oerrors=continue 0
-osync,dirsync 0
lazytime 255
mand 255
delalloc 255
dirsync 0
";

/// The second disk cannot be written, and only root can open its node.
const NAMES: &str = "head -n 1 /dev/vda; head -n 1 /dev/vdb
    blockdev --getro /dev/vda; blockdev --getro /dev/vdb
    echo x | dd of=/dev/vdb 2>&1 | grep -o 'not permitted'
    echo x >/dev/vda; echo $?
    su nobody -s /bin/sh -c 'cat /dev/vda' 2>&1 | grep -o 'Permission denied'";
const NAMED: &str = "first\nsecond\n0\n1\nnot permitted\n0\nPermission denied\n";

/// Sector 2048 cannot be read, and sector 4096 cannot be written. Each error is reported once.
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
        ("disk-ext4-options", ext4_options),
        ("disk-root", root),
        ("disk-erofs-root", erofs_root),
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

/// Data that was reported to be on the disk is there after the machine was killed.
fn cut(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let disk = format!("--disk={}", image.display());
    let told = killed_after(project, arch, &[disk], CUT, Duration::ZERO)?;
    let bytes = fs::read(&image)?;
    let there =
        bytes[3 * 4096..].starts_with(b"kept\n") && bytes[5 << 20..].starts_with(b"mapped\n");
    Ok(told.or_else(|| (!there).then(|| "not on the disk".into())))
}

/// Runs a script, and kills its machine this long after it has reported that it synced the disk;
/// otherwise returns its output.
fn killed_after(
    project: &Project,
    arch: Arch,
    options: &[String],
    script: &str,
    after: Duration,
) -> Result<Option<String>> {
    let mut machine = command(project)?
        .args(["run", "--arch", arch.debian(), "--timeout=400"])
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut told = String::new();
    if let Some(said) = machine.stdout.take() {
        BufReader::new(said).read_line(&mut told)?;
    }
    thread::sleep(after);
    // The command kills the emulator.
    Command::new("kill")
        .arg(machine.id().to_string())
        .status()?;
    machine.wait()?;
    Ok((told != "told\n").then(|| format!("it said {told:?}")))
}

/// Data that a file system has synced is there after the machine was killed, and the file system is
/// consistent.
fn ext4_cut(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    File::options()
        .write(true)
        .open(&image)?
        .set_len(32 << 20)?;
    let package = ["--package", "e2fsprogs", "--package", "coreutils"].map(String::from);
    let disk = [format!("--disk={}", image.display())];
    let options = [&package[..], &disk].concat();
    // In the middle of its work.
    let midst = Duration::from_secs(2);
    let told = killed_after(project, arch, &options, EXT4_CUT, midst)?;
    if told.is_some() {
        return Ok(told);
    }
    let after = run_script(project, arch, &options, EXT4_AFTER)?;
    Ok(differs(&after, EXT4_KEPT))
}

fn ext4_options(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let options = [
        "--package=e2fsprogs".into(),
        format!("--disk={}", image.display()),
    ];
    Ok(differs(
        &run_script(project, arch, &options, EXT4_OPTIONS)?,
        EXT4_OPTED,
    ))
}

/// A machine runs from a disk, and leaves it as after an unmount.
fn root(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let disk = format!("--disk={}", image.display());
    let checks = ["--package=e2fsprogs".to_owned(), disk.clone()];
    let root = format!("--root={}", image.display());
    let used = "on-disk\nbin\ndev\netc\nlost+found\nproc\nrun\nsys\n/dev/vda / ext4 rw\n\
        devices\n/\n";
    for (options, script, expected) in [
        (&checks[..], ROOT_MADE, "made\n"),
        (std::slice::from_ref(&root), ROOT_USED, used),
        (
            &[format!("{root},ro")],
            ROOT_READ,
            "kept\n/dev/vda / ext4 ro\n",
        ),
        (
            &checks,
            "e2fsck -n /dev/vda 2>/dev/null | grep -o clean",
            "clean\n",
        ),
        (
            &checks,
            "e2fsck -fn /dev/vda >/dev/null 2>&1; echo $?",
            "0\n",
        ),
    ] {
        if let Some(how) = differs(&run_script(project, arch, options, script)?, expected) {
            return Ok(Some(how));
        }
    }
    Ok(None)
}

fn erofs_root(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let image = image(folder, "disk", b"")?;
    let disk = format!("--disk={}", image.display());
    let made = ["--package=erofs-utils".to_owned(), disk];
    if let Some(how) = differs(&run_script(project, arch, &made, EROFS_MADE)?, "made\n") {
        return Ok(Some(how));
    }
    let root = [format!("--root={}", image.display())];
    let used = run_script(project, arch, &root, EROFS_USED)?;
    Ok(differs(&used, "in-image\n1\n/dev/vda / erofs ro\n/\n"))
}

fn names(project: &Project, arch: Arch, folder: &Path) -> Result<Option<String>> {
    let first = image(folder, "first", b"first\n")?;
    let second = image(folder, "second", b"second\n")?;
    let options = [
        format!("--disk={}", first.display()),
        format!("--disk={},ro", second.display()),
    ];
    Ok(differs(&run_script(project, arch, &options, NAMES)?, NAMED))
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
    Ok(differs(
        &run_script(project, arch, &[node], BROKEN)?,
        ERRORS,
    ))
}
