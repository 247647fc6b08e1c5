//! Makes an EROFS of a tree, by Debian's mkfs.erofs.
//!
//! The program gets the whole tree as one tar archive, which is written here: nothing of the
//! image's own headers reaches it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::statvfs;
use tar::{Builder, EntryType, Header};

use super::archive::Kind;
use super::tree::{Place, Tree};

/// The longest name or target that a header holds.
const HEADER_NAME: usize = 100;
/// Larger numbers of users and groups are extensions.
const HEADER_ID: u64 = 0o777_7777;
/// What a file takes besides its content, about.
const NODE: u64 = 100;
/// The identifier of all images, so that they are the same whenever they are made.
const UUID: &str = "5f1ee5e0-0000-4000-8000-000000000000";

/// Writes the file system to a file by the program that `command` starts. The content of files is
/// in the tar archives of their layers.
pub fn make(mut command: Command, tree: &Tree, archives: &[PathBuf], to: &Path) -> Result<()> {
    check_space(tree, to)?;
    command
        .args([
            "--tar=f",
            "--sort=none",
            "--preserve-mtime",
            "--quiet",
            "-d0",
            "-U",
            UUID,
        ])
        .arg(to)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("mkfs.erofs cannot be run")?;
    let stdin = child.stdin.take().context("mkfs.erofs has no input")?;
    let written = write(tree, archives, BufWriter::with_capacity(1 << 16, stdin));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().rfind(|line| !line.trim().is_empty());
        bail!(
            "mkfs.erofs failed: {}",
            reason.unwrap_or("it does not say why").trim()
        );
    }
    written?;
    // Else a file system that is complete by its name may be empty after a power cut.
    Ok(File::open(to)?.sync_all()?)
}

/// Refuses a tree for which there is no room: mkfs.erofs does not say that this is the reason.
fn check_space(tree: &Tree, to: &Path) -> Result<()> {
    let size = |place: Place| match place.node.kind {
        Kind::File { size, .. } => NODE + size,
        _ => NODE,
    };
    let needed = tree.places().map(size).fold(0, u64::saturating_add);
    let folder = to.parent().context("a file has a folder")?;
    let space = statvfs(folder)?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < needed {
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        bail!(
            "it takes {} MiB, and {} has {} MiB left",
            megabytes(needed),
            folder.display(),
            free >> 20
        );
    }
    Ok(())
}

/// Writes a tree as a tar archive.
fn write(tree: &Tree, archives: &[PathBuf], to: impl Write) -> Result<()> {
    let archives: Vec<File> = archives.iter().map(File::open).collect::<io::Result<_>>()?;
    let mut builder = Builder::new(to);
    let mut names = HashMap::new();
    for place in tree.places() {
        let first = *names.entry(place.number).or_insert(place.path);
        if first != place.path {
            append(&mut builder, &place, Some(first), &archives)?;
        } else {
            append(&mut builder, &place, None, &archives)?;
        }
    }
    builder.into_inner()?.flush()?;
    Ok(())
}

/// Appends what is at a place, or a hard link to where the same is already.
fn append(
    builder: &mut Builder<impl Write>,
    place: &Place,
    first: Option<&[u8]>,
    archives: &[File],
) -> Result<()> {
    let attributes = &place.node.attributes;
    let mut header = Header::new_ustar();
    let mut extensions: Vec<(String, Vec<u8>)> = Vec::new();
    let mut text =
        |key: &str, field: &mut [u8; HEADER_NAME], text: &[u8]| match field.get_mut(..text.len()) {
            Some(field) => field.copy_from_slice(text),
            None => extensions.push((key.into(), text.to_vec())),
        };
    let path = match place.path {
        b"" => b"./",
        path => path,
    };
    let old = header.as_old_mut();
    text("path", &mut old.name, path);
    let (kind, content) = match (&place.node.kind, first) {
        (_, Some(first)) => {
            text("linkpath", &mut old.linkname, first);
            (EntryType::Link, None)
        }
        (Kind::Directory, _) => (EntryType::Directory, None),
        (Kind::Fifo, _) => (EntryType::Fifo, None),
        (Kind::Symlink(target), _) => {
            text("linkpath", &mut old.linkname, target);
            (EntryType::Symlink, None)
        }
        (&Kind::File { at, size }, _) => (EntryType::Regular, Some((at, size))),
        (Kind::HardLink(_) | Kind::Device, _) => bail!("a tree has neither"),
    };
    header.set_entry_type(kind);
    header.set_mode(attributes.mode);
    header.set_mtime(attributes.mtime.min(u64::from(u32::MAX)));
    let mut number = |key: &str, number: u64| {
        let fits = number <= HEADER_ID;
        if !fits {
            extensions.push((key.into(), number.to_string().into_bytes()));
        }
        if fits { number } else { 0 }
    };
    header.set_uid(number("uid", attributes.uid));
    header.set_gid(number("gid", attributes.gid));
    let size = content.map_or(0, |(_, size)| size);
    header.set_size(size);
    if first.is_none() {
        let extended = attributes.extended.iter();
        extensions
            .extend(extended.map(|(name, value)| (format!("SCHILY.xattr.{name}"), value.clone())));
    }
    builder.append_pax_extensions(
        extensions
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice())),
    )?;
    header.set_cksum();
    match content {
        Some((at, size)) => {
            let mut archive = &archives[place.node.layer];
            archive.seek(SeekFrom::Start(at))?;
            builder.append(&header, archive.take(size))?;
        }
        None => builder.append(&header, io::empty())?,
    }
    Ok(())
}
