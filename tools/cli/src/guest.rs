//! Puts a machine, a file tree and jobs together, and boots them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use wire::Job;

use crate::arch::Arch;
use crate::disk;
use crate::initramfs::Initramfs;
use crate::project::Project;
use crate::qemu::{Files, Machine, Qemu};
use crate::session::{Folder, Link, Session};
use crate::share;
use crate::toolchain;

/// The folder for host programs and copied files in a guest, in which programs start.
pub const HOST_FOLDER: &str = "/host";

/// The environment of a guest's programs.
pub const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LC_ALL=C.UTF-8",
];

/// A job that runs `arguments` with the usual environment.
pub fn job(arguments: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Job {
    Job {
        arguments: arguments.into_iter().map(Into::into).collect(),
        environment: ENVIRONMENT
            .map(|variable| variable.as_bytes().to_vec())
            .to_vec(),
        directory: HOST_FOLDER.into(),
        ..Job::default()
    }
}

/// The base tree of every guest.
pub fn tree<'a>(project: &'a Project, arch: Arch) -> Result<Initramfs<'a>> {
    let mut tree = bare_tree(project, arch)?;
    tree.add_busybox()?;
    Ok(tree)
}

/// The tree without busybox, which comes from Debian.
pub fn bare_tree<'a>(project: &'a Project, arch: Arch) -> Result<Initramfs<'a>> {
    let init = toolchain::program(project, arch, "init")?;
    let mut tree = Initramfs::new(project, arch);
    tree.file("init", &init)?;
    tree.folder(HOST_FOLDER);
    Ok(tree)
}

/// Boots `machine` with `tree`, in which PID 1 runs `jobs`. The kernel's log goes to `log`, or to a
/// file that is removed with the session.
pub fn boot(
    project: &Project,
    machine: &Machine,
    tree: &mut Initramfs,
    jobs: &[Job],
    log: Option<&Path>,
) -> Result<Session> {
    let image = machine.kernel.image(project, machine.arch)?;
    let qemu = Qemu::find(project, machine.arch)?;
    tree.text("stile/channel", machine.channel_device().as_bytes());
    tree.text(wire::JOBS_PATH, &wire::job::encode(jobs));
    let folder = Folder::new(project.cache.join("run"))?;
    let initramfs = folder.file("initramfs");
    fs::write(&initramfs, tree.write()?)?;
    let log = log.map_or_else(|| folder.file("log"), Path::to_path_buf);
    let link = Link::new()?;
    let files = Files {
        image: &image,
        initramfs: &initramfs,
        log: &log,
        folder: folder.path(),
    };
    disk::create(&machine.disks, folder.path())?;
    share::create(&machine.shares, folder.path())?;
    let command = [qemu.command, machine.arguments(&files, link.guest())].concat();
    let most = match share::any_written(&machine.shares) {
        true => u64::MAX,
        false => disk::most_bytes(&machine.disks),
    };
    let mut session = Session::start(&command, link, folder, log, most)?;
    if !machine.disks.is_empty() {
        session.await_disks();
    }
    Ok(session)
}

/// The command that [`boot`] would run, as far as it is known without building or downloading
/// anything.
pub fn command_line(project: &Project, machine: &Machine) -> Vec<OsString> {
    let image = machine.kernel.planned_image(project, machine.arch);
    let folder = project.cache.join("run");
    let (initramfs, log): (PathBuf, PathBuf) = (folder.join("initramfs"), folder.join("log"));
    let found =
        Qemu::of_host(machine.arch).or_else(|| Qemu::of_debian_cached(project, machine.arch));
    let qemu = found.map_or_else(|| vec![machine.arch.qemu().into()], |qemu| qemu.command);
    [
        qemu,
        machine.arguments(
            &Files {
                image: &image,
                initramfs: &initramfs,
                log: &log,
                folder: &folder,
            },
            3,
        ),
    ]
    .concat()
}
