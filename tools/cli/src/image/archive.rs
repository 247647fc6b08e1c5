//! Reads tar archives: what an entry is, and where in the archive its content is.
//!
//! Crate `tar` decodes headers. It holds the extensions before them in memory, whatever their size,
//! and ends their values at a newline, so entries are put together here.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail};
use tar::{EntryType, Header};

/// The size of a header, and the unit of sizes.
const BLOCK: u64 = 512;
/// The maximum size of an extension: a long name, or the attributes of a file.
const MOST_EXTENSION: u64 = 1 << 20;
/// The maximum length of a path and of one name in it.
const MOST_PATH: usize = 4095;
const MOST_NAME: usize = 255;
/// The beginning of the names of extended attributes in extensions.
const ATTRIBUTE: &str = "SCHILY.xattr.";

/// An entry. Paths have no `.` and no slash at either end; that of the root is empty.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file: the offset of its content in the archive, and its size.
    File {
        /// The offset.
        at: u64,
        /// The size.
        size: u64,
    },
    /// A symbolic link to any text.
    Symlink(Vec<u8>),
    /// A further name of the file with this path.
    HardLink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A device.
    Device,
}

/// Attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions with the bits above them.
    pub mode: u32,
    /// The user.
    pub uid: u64,
    /// The group.
    pub gid: u64,
    /// The time of modification in seconds.
    pub mtime: u64,
    /// Extended attributes.
    pub extended: Vec<(String, Vec<u8>)>,
}

/// Extensions that precede a header.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<u64>,
    extended: Vec<(String, Vec<u8>)>,
    /// The size of all of them.
    total: u64,
}

impl Entry {
    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        let link = match &self.kind {
            Kind::Symlink(target) | Kind::HardLink(target) => target.len(),
            _ => 0,
        };
        let extended = self.attributes.extended.iter();
        let extended: usize = extended
            .map(|(name, value)| name.len() + value.len() + 64)
            .sum();
        size_of::<Self>() + self.path.len() + link + extended
    }
}

/// Calls `each` for every entry of an archive.
pub fn read(file: &File, mut each: impl FnMut(Entry) -> Result<()>) -> Result<()> {
    let end = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0))?;
    let (mut at, mut extensions) = (0, Extensions::default());
    while at < end {
        let mut header = Header::new_old();
        let whole = reader.read_exact(header.as_mut_bytes());
        whole.with_context(|| format!("the archive ends inside the header at {at}"))?;
        at += BLOCK;
        if header.as_bytes().iter().all(|&byte| byte == 0) {
            break;
        }
        check_sum(&header).with_context(|| format!("no tar header at {}", at - BLOCK))?;
        let size = match header.entry_type() {
            kind if has_content(kind) => match &extensions.size {
                Some(size) if !is_extension(kind) => *size,
                _ => header.entry_size().context("the size of an entry")?,
            },
            _ => 0,
        };
        let next = size.checked_next_multiple_of(BLOCK);
        let next = next.and_then(|size| at.checked_add(size));
        let Some(next) = next.filter(|_| at.saturating_add(size) <= end) else {
            bail!("the archive ends before its entry at {at} with {size} bytes does");
        };
        if is_extension(header.entry_type()) {
            extensions.total = extensions.total.saturating_add(size);
            if extensions.total > MOST_EXTENSION {
                bail!(
                    "the extensions at {at} are too large ({} bytes)",
                    extensions.total
                );
            }
            let mut content = vec![0; size as usize];
            reader.read_exact(&mut content)?;
            extensions.add(header.entry_type(), content)?;
        } else {
            each(entry(&header, std::mem::take(&mut extensions), at, size)?)?;
        }
        let now = reader.stream_position()?;
        reader.seek_relative((next - now) as i64)?;
        at = next;
    }
    Ok(())
}

fn check_sum(header: &Header) -> Result<()> {
    let bytes = header.as_bytes();
    let others = bytes[..148].iter().chain(&bytes[156..]);
    let sum: u32 = others.map(|&byte| u32::from(byte)).sum();
    if header.cksum()? != sum + 8 * u32::from(b' ') {
        bail!("its sum is wrong");
    }
    Ok(())
}

fn is_extension(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

/// Whether content follows the header; what others say about their size is ignored.
fn has_content(kind: EntryType) -> bool {
    !(kind.is_dir()
        || kind.is_symlink()
        || kind.is_hard_link()
        || kind.is_fifo()
        || kind.is_block_special()
        || kind.is_character_special())
}

impl Extensions {
    fn add(&mut self, kind: EntryType, mut content: Vec<u8>) -> Result<()> {
        if kind.is_gnu_longname() || kind.is_gnu_longlink() {
            if content.last() == Some(&0) {
                content.pop();
            }
            let text = match kind.is_gnu_longname() {
                true => &mut self.path,
                false => &mut self.link,
            };
            *text = Some(content);
        } else if kind.is_pax_local_extensions() {
            let mut rest = &content[..];
            while !rest.is_empty() {
                let (key, value, next) = record(rest).context("a damaged pax extension")?;
                self.add_pax(key, value)?;
                rest = next;
            }
        }
        Ok(())
    }

    fn add_pax(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let number = || {
            let text = std::str::from_utf8(value).unwrap_or_default();
            let whole = text.split('.').next().unwrap_or_default();
            whole
                .parse::<u64>()
                .with_context(|| format!("the pax extension {key}={text}"))
        };
        match key {
            "path" => self.path = Some(value.to_vec()),
            "linkpath" => self.link = Some(value.to_vec()),
            "size" => self.size = Some(number()?),
            "uid" => self.uid = Some(number()?),
            "gid" => self.gid = Some(number()?),
            // Times before 1970 become 1970.
            "mtime" => self.mtime = Some(number().unwrap_or(0)),
            key if key.starts_with("GNU.sparse") => bail!("sparse files are not supported"),
            key => {
                if let Some(name) = key.strip_prefix(ATTRIBUTE) {
                    self.extended.push((name.to_owned(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// The first record of a pax extension, `LENGTH KEY=VALUE\n`, and the rest.
fn record(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|&byte| byte == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    let key = std::str::from_utf8(&record[..equals]).ok()?;
    Some((key, &record[equals + 1..], rest))
}

fn entry(header: &Header, extensions: Extensions, at: u64, size: u64) -> Result<Entry> {
    let path = extensions
        .path
        .unwrap_or_else(|| header.path_bytes().into());
    let shown = String::from_utf8_lossy(&path).into_owned();
    let is_folder = path.last() == Some(&b'/');
    let path = normal(&path)?;
    let link = || {
        let link = extensions.link.clone();
        link.or_else(|| header.link_name_bytes().map(|name| name.into()))
            .unwrap_or_default()
    };
    let kind = match header.entry_type() {
        EntryType::Directory => Kind::Directory,
        // A directory of the oldest format.
        EntryType::Regular if is_folder => Kind::Directory,
        EntryType::Regular | EntryType::Continuous => Kind::File { at, size },
        EntryType::Symlink => match link() {
            target if target.is_empty() || target.len() > MOST_PATH || target.contains(&0) => {
                bail!("{shown:?} is a link to nothing that can be named")
            }
            target => Kind::Symlink(target),
        },
        EntryType::Link => Kind::HardLink(normal(&link())?),
        EntryType::Fifo => Kind::Fifo,
        EntryType::Block | EntryType::Char => Kind::Device,
        EntryType::GNUSparse => bail!("{shown:?}: sparse files are not supported"),
        other => bail!(
            "{shown:?} is of an unknown type ({:?})",
            other.as_byte() as char
        ),
    };
    let attributes = Attributes {
        mode: header.mode().context("the mode of an entry")? & 0o7777,
        uid: extensions
            .uid
            .map_or_else(|| header.uid(), Ok)
            .context("the user of an entry")?,
        gid: extensions
            .gid
            .map_or_else(|| header.gid(), Ok)
            .context("the group of an entry")?,
        mtime: extensions
            .mtime
            .map_or_else(|| header.mtime(), Ok)
            .unwrap_or(0),
        extended: extensions.extended,
    };
    let ids = [attributes.uid, attributes.gid];
    if ids.iter().any(|&id| id >= u64::from(u32::MAX)) {
        bail!("{shown:?} belongs to a user or group that cannot be");
    }
    Ok(Entry {
        path,
        kind,
        attributes,
    })
}

/// A path without needless parts; refuses those that lead outside.
fn normal(path: &[u8]) -> Result<Vec<u8>> {
    let shown = || String::from_utf8_lossy(&path[..path.len().min(100)]).into_owned();
    if path.first() == Some(&b'/') {
        bail!("{:?} is an absolute name", shown());
    }
    if path.contains(&0) {
        bail!("{:?} contains a NUL", shown());
    }
    let parts = path.split(|&byte| byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        bail!("{:?} leads outside", shown());
    }
    let path = parts.join(&b'/');
    if path.len() > MOST_PATH || parts.iter().any(|part| part.len() > MOST_NAME) {
        bail!("{:?}… is too long a name", shown());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_extensions_are_binary() {
        let bytes = b"12 a=b\n=\n c\n5 k=\nx";
        let (key, value, rest) = record(bytes).unwrap();
        assert_eq!((key, value), ("a", &b"b\n=\n c"[..]));
        let (key, value, rest) = record(rest).unwrap();
        assert_eq!((key, value, rest), ("k", &b""[..], &b"x"[..]));
        for wrong in [
            "",
            "x",
            "5 k=v\n",
            "7 k=v\n",
            "4 k\n",
            "1 k=v\n",
            "99999999999999999999 k",
        ] {
            assert!(record(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn paths_stay_inside() {
        assert_eq!(normal(b"./a//b/./c/").unwrap(), b"a/b/c");
        assert_eq!(normal(b"./").unwrap(), b"");
        assert_eq!(normal(b"a..b").unwrap(), b"a..b");
        for wrong in [&b"/a"[..], b"..", b"a/../b", b"./..", b"a\0b", &[b'a'; 256]] {
            assert!(normal(wrong).is_err());
        }
        assert!(normal(&b"a/".repeat(3000)).is_err());
    }
}
