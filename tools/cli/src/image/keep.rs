//! Disks in the cache that keep what the programs of an image write.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{CLOSURE, Image, PACKAGES, command};
use crate::disk::Disk;
use crate::host_programs::HostPrograms;
use crate::project::{Project, output_or_reason};
use crate::session::Folder;

/// The folder of these disks in the cache.
const FOLDER: &str = "kept";
/// The size of a disk. Its file takes only what is written.
const SIZE: u64 = 8 << 30;

/// A disk that nobody else uses meanwhile.
pub struct Kept {
    folder: PathBuf,
    _lock: File,
}

impl Kept {
    /// The path of the disk of this name, which may not exist yet.
    pub fn place(project: &Project, name: &str) -> Result<PathBuf> {
        Ok(folder(project, name)?.join("disk"))
    }

    /// The disk of this name, made on first use. It belongs to the layers of one image: above
    /// others, what was written would make no sense.
    pub fn open(project: &Project, name: &str, image: &Image) -> Result<Self> {
        let folder = folder(project, name)?;
        let open = || {
            if !folder.is_dir() {
                make(project, &folder, image)?;
            }
            let lock = File::open(folder.join("lock"))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => bail!("another machine uses it"),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            if fs::read_to_string(folder.join("image"))? != image.key() {
                bail!(
                    "it belongs to another image; remove {} to begin anew",
                    folder.display()
                );
            }
            Ok(lock)
        };
        let _lock = open().with_context(|| format!("--keep {name}"))?;
        Ok(Self { folder, _lock })
    }

    /// The disk.
    pub fn disk(&self) -> Disk {
        Disk::raw(self.folder.join("disk"), false)
    }
}

fn folder(project: &Project, name: &str) -> Result<PathBuf> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(legal) {
        bail!("--keep {name}: a name is made of letters, digits, '-', '_' and '.'");
    }
    Ok(project.cache.join(FOLDER).join(name))
}

/// Makes a disk; another process may make the same.
fn make(project: &Project, place: &PathBuf, image: &Image) -> Result<()> {
    let programs = HostPrograms::new(project, CLOSURE, &PACKAGES)?;
    let new = Folder::new(project.cache.join(super::FOLDER).join("new"))?;
    let disk = new.file("disk");
    File::create(&disk)?.set_len(SIZE)?;
    let mut mkfs = command(programs.command("usr/sbin/mke2fs"));
    mkfs.env("MKE2FS_CONFIG", programs.file("etc/mke2fs.conf"))
        .args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-m",
            "0",
            "-E",
            "assume_storage_prezeroed=1",
        ])
        .arg(&disk);
    output_or_reason(&mut mkfs, "making an ext4")?;
    fs::write(new.file("image"), image.key())?;
    fs::write(new.file("lock"), "")?;
    fs::create_dir_all(project.cache.join(FOLDER))?;
    match fs::rename(new.path(), place) {
        Err(error) if !place.is_dir() => Err(error).context("keeping the disk"),
        _ => Ok(()),
    }
}
