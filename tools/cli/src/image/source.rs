//! The files of an image: in a folder, or in a tar archive that is read where it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::archive::{self, Kind};
use super::digest::Digest;

/// The maximum size of a document, such as a manifest.
const MOST_TEXT: u64 = 4 << 20;
/// The maximum number of files in an archive.
const MOST_FILES: usize = 100_000;

/// A folder or an archive.
pub enum Source {
    /// The folder.
    Folder(PathBuf),
    /// The archive, and where in it the files are.
    Archive(PathBuf, BTreeMap<String, Place>),
}

/// A file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// Its first byte, and its size.
    Bytes(u64, u64),
    /// It is the file of this name: old versions of Docker store equal layers once.
    Link(String),
}

impl Source {
    /// Reads the names of an archive's files.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Ok(Self::Folder(path.into()));
        }
        let file = regular(path)?;
        let mut start = Vec::new();
        (&file).take(6).read_to_end(&mut start)?;
        if let Some(how) = compression(&start) {
            bail!("the archive is compressed ({how}): decompress it first");
        }
        let mut places = BTreeMap::new();
        let reading = archive::read(&file, |entry| {
            let name = String::from_utf8_lossy(&entry.path).into_owned();
            let place = match entry.kind {
                Kind::File { at, size } => Place::Bytes(at, size),
                Kind::Symlink(target) => {
                    let target = String::from_utf8_lossy(&target).into_owned();
                    Place::Link(beside(&name, &target))
                }
                Kind::HardLink(target) => {
                    Place::Link(String::from_utf8_lossy(&target).into_owned())
                }
                _ => return Ok(()),
            };
            places.insert(name, place);
            if places.len() > MOST_FILES {
                bail!("there are more than {MOST_FILES} files in the archive");
            }
            Ok(())
        });
        reading.context("not an image: neither a folder nor a tar archive of one")?;
        Ok(Self::Archive(path.into(), places))
    }

    /// Whether there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).is_file(),
            Self::Archive(_, places) => places.contains_key(name),
        }
    }

    /// A reader of the file of this name, and its size.
    pub fn file(&self, name: &str) -> Result<(Take<File>, u64)> {
        let missing = || format!("the image has no file {name:?}");
        match self {
            Self::Folder(folder) => {
                let normal = |part| matches!(part, Component::Normal(_));
                if !Path::new(name).components().all(normal) {
                    bail!("{name:?} is not the name of a file of the image");
                }
                let path = folder.join(name);
                if !path.exists() {
                    bail!(missing());
                }
                let file = regular(&path)?;
                let size = file.metadata()?.len();
                Ok((file.take(size), size))
            }
            Self::Archive(path, places) => {
                let mut place = places.get(name);
                if let Some(Place::Link(target)) = place {
                    place = places.get(target);
                }
                let Some(&Place::Bytes(at, size)) = place else {
                    bail!(missing());
                };
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(at))?;
                Ok((file.take(size), size))
            }
        }
    }

    /// A document.
    pub fn text(&self, name: &str) -> Result<Vec<u8>> {
        let (mut file, size) = self.file(name)?;
        if size > MOST_TEXT {
            bail!("{name} is too large ({size} bytes)");
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    }

    /// A document with this digest.
    pub fn verified(&self, name: &str, digest: Digest) -> Result<Vec<u8>> {
        let text = self.text(name)?;
        let found = Digest::of(&text);
        if found != digest {
            bail!("{name} is damaged: its digest is {found}, not {digest}");
        }
        Ok(text)
    }
}

/// Opens a regular file; any other would block or have no end.
fn regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    if !metadata.is_file() {
        bail!("{} is not a regular file", path.display());
    }
    File::open(path).with_context(|| path.display().to_string())
}

/// The compression of a file that begins with these bytes.
fn compression(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Some("xz"),
        _ => None,
    }
}

/// The name that a link at `name` leads to. It need not exist.
fn beside(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_names_in_the_archive() {
        assert_eq!(beside("a/layer.tar", "../b/layer.tar"), "b/layer.tar");
        assert_eq!(beside("a", "../../../etc/passwd"), "etc/passwd");
        assert_eq!(beside("a/b/c", "./d"), "a/b/d");
    }

    #[test]
    fn a_folder_has_no_files_outside() {
        let folder = Source::Folder(std::env::temp_dir());
        for name in ["../etc/passwd", "/etc/passwd", "a/../../b", ".."] {
            let error = folder.file(name).err().unwrap().to_string();
            assert!(error.contains("is not the name"), "{error}");
        }
        assert!(Source::open(Path::new("/dev/null")).is_err());
    }
}
