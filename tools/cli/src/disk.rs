//! Disks of a machine: images on the host.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;

/// The first bytes of QEMU's own format.
const MAGIC: [u8; 4] = *b"QFI\xfb";
/// The suffix of the names of such images.
const ENDING: &str = "qcow2";

/// Modules that Debian's Linux needs for these disks and their file systems, in order.
pub const LINUX_MODULES: [&str; 9] = [
    "drivers/virtio/virtio_mmio",
    "drivers/block/virtio_blk",
    "lib/crc16",
    "crypto/crc32c_generic",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
    "lib/libcrc32c",
    "fs/erofs/erofs",
];

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    image: Image,
    /// QEMU's name of its format.
    format: &'static str,
    read_only: bool,
}

/// The content of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Image {
    /// A file.
    File(PathBuf),
    /// This number of zero bytes, in a file that is removed with the machine.
    Empty(u64),
}

impl Disk {
    /// A disk of zeroes that is removed with the machine.
    pub fn empty(bytes: u64) -> Self {
        Disk {
            image: Image::Empty(bytes),
            format: "raw",
            read_only: false,
        }
    }

    /// A raw image of our own.
    pub fn raw(path: PathBuf, read_only: bool) -> Self {
        Disk {
            image: Image::File(path),
            format: "raw",
            read_only,
        }
    }

    /// Whether the machine cannot write it.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The maximum size of its file in bytes.
    fn most_bytes(&self) -> u64 {
        match &self.image {
            Image::Empty(bytes) => *bytes,
            Image::File(path) if self.format == ENDING => {
                // The size of the disk, plus the overhead of the format.
                let bytes = virtual_size(path).unwrap_or(0);
                bytes.saturating_add(bytes / 32).saturating_add(1 << 26)
            }
            Image::File(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
        }
    }

    /// The disk that `FILE[,ro]` describes.
    pub fn parse(text: &str) -> Result<Self> {
        let (path, read_only) = match text.strip_suffix(",ro") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let path = Path::new(path);
        let found = format(path).with_context(|| format!("the disk {}", path.display()))?;
        // QEMU must find it even if it is started in another directory.
        let path = path.canonicalize()?;
        Ok(Disk {
            image: Image::File(path),
            format: found,
            read_only,
        })
    }
}

/// The size of the disk in an image of QEMU's own format.
fn virtual_size(path: &Path) -> Result<u64> {
    let mut header = [0; 32];
    File::open(path)?.read_exact(&mut header)?;
    let size = header[24..].try_into().context("the size of the disk")?;
    Ok(u64::from_be_bytes(size))
}

/// The format of an image. An image that begins like QEMU's own format, but has another name, is
/// raw: a guest can write such a beginning into a raw image, and would then choose which files of
/// the host are read.
fn format(path: &Path) -> Result<&'static str> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        bail!("not a file");
    }
    let mut start = [0; MAGIC.len()];
    let is_own = match File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
        read => read.map(|()| start == MAGIC)?,
    };
    let named = path.extension().is_some_and(|ending| ending == ENDING);
    Ok(if is_own && named { ENDING } else { "raw" })
}

/// For each disk, QEMU's words for its image and for its device, in the order in which kernels find
/// the first one first. Linux and Stile follow the device tree, in which QEMU places arm64's
/// devices in the opposite order of its command line.
pub fn options(disks: &[Disk], arch: Arch, folder: &Path) -> Vec<(String, String)> {
    let words = |(index, disk)| words(index, disk, folder);
    let mut options: Vec<_> = disks.iter().enumerate().map(words).collect();
    if arch == Arch::Arm64 {
        options.reverse();
    }
    options
}

/// Creates the files of empty disks in the machine's folder.
pub fn create(disks: &[Disk], folder: &Path) -> Result<()> {
    for (index, disk) in disks.iter().enumerate() {
        if let Image::Empty(bytes) = disk.image {
            File::create(place(index, folder))?.set_len(bytes)?;
        }
    }
    Ok(())
}

/// The maximum size of any file of the machine: its log and the like, and its largest disk.
pub fn most_bytes(disks: &[Disk]) -> u64 {
    const LEAST: u64 = 1 << 30;
    disks.iter().map(Disk::most_bytes).fold(LEAST, u64::max)
}

fn place(index: usize, folder: &Path) -> PathBuf {
    folder.join(format!("disk{index}"))
}

fn words(index: usize, disk: &Disk, folder: &Path) -> (String, String) {
    let path = match &disk.image {
        Image::File(path) => path.clone(),
        Image::Empty(_) => place(index, folder),
    };
    let file = path.display().to_string().replace(',', ",,");
    let read_only = if disk.read_only { "on" } else { "off" };
    let node = format!(
        "driver={},node-name=disk{index},read-only={read_only},file.driver=file,\
         file.filename={file},file.read-only={read_only}",
        disk.format
    );
    let device = format!("virtio-blk-device,drive=disk{index},serial=stile{index}");
    (node, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_raw_unless_it_is_named_otherwise_too() {
        let folder = std::env::temp_dir().join(format!("stile-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let own = [&MAGIC[..], &[0; 508]].concat();
        for (name, content, expected) in [
            ("a.qcow2", &own[..], "qcow2"),
            ("b.img", &own[..], "raw"),
            ("c.qcow2", &[0; 512][..], "raw"),
            ("d.qcow2", &[][..], "raw"),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            let disk = Disk::parse(&format!("{},ro", path.display())).unwrap();
            assert_eq!((disk.format, disk.read_only), (expected, true), "{name}");
            assert!(!Disk::parse(path.to_str().unwrap()).unwrap().read_only);
        }
        assert!(Disk::parse(folder.to_str().unwrap()).is_err());
        assert!(Disk::parse("/nonexistent").is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
