//! Folders of this machine that a guest has without a copy: QEMU serves each by 9P. It opens files
//! as the user that started it, below that folder only; a guest resolves symbolic links itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::guest::HOST_FOLDER;
use crate::initramfs::Initramfs;

/// Modules that Debian's Linux needs for these folders, in order.
pub const LINUX_MODULES: [&str; 5] = [
    "drivers/virtio/virtio_mmio",
    "fs/netfs/netfs",
    "net/9p/9pnet",
    "fs/9p/9p",
    "net/9p/9pnet_virtio",
];

/// The maximum number of folders.
const MOST: usize = 8;

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    folder: Folder,
    /// Where the guest has it; nowhere if a program mounts it.
    place: String,
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Folder {
    /// One of this machine.
    Own(PathBuf),
    /// An empty one that is removed with the machine.
    Empty,
}

impl Share {
    /// An empty folder that is removed with the machine.
    pub fn empty() -> Self {
        Share {
            folder: Folder::Empty,
            place: String::new(),
            read_only: false,
        }
    }

    /// The folder that `DIR[:GUEST][,ro]` describes.
    fn parse(text: &str) -> Result<Self> {
        let (text, read_only) = match text.strip_suffix(",ro") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (folder, place) = match text.rsplit_once(':') {
            Some((folder, place)) => (folder, Some(place)),
            None => (text, None),
        };
        // QEMU must find it even if it is started in another directory.
        let path = Path::new(folder).canonicalize();
        let path = path.with_context(|| format!("the folder {folder}"))?;
        if !path.is_dir() {
            bail!("{folder} is not a folder");
        }
        if path.to_str().is_none() {
            bail!("the name of {folder} is not UTF-8");
        }
        let place = match (place, path.file_name()) {
            (Some(place), _) => place.to_owned(),
            (None, Some(name)) => format!("{HOST_FOLDER}/{}", name.display()),
            (None, None) => {
                bail!("{folder} has no name: say where the guest has it, as {folder}:/GUEST")
            }
        };
        if !place.starts_with('/') || place.contains('\n') {
            bail!("the guest's path must start with a slash");
        }
        Ok(Share {
            folder: Folder::Own(path),
            place,
            read_only,
        })
    }

    /// The folders that options describe.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>> {
        if texts.len() > MOST {
            bail!("--share: no more than {MOST} folders");
        }
        let mut shares: Vec<Share> = Vec::new();
        for text in texts {
            let share = Self::parse(text).with_context(|| format!("--share {text}"))?;
            if shares.iter().any(|other| other.place == share.place) {
                bail!("--share {text}: another folder is {} already", share.place);
            }
            shares.push(share);
        }
        Ok(shares)
    }

    fn path(&self, index: usize, folder: &Path) -> PathBuf {
        match &self.folder {
            Folder::Own(path) => path.clone(),
            Folder::Empty => folder.join(tag(index)),
        }
    }
}

/// The tag by which a guest finds a folder.
fn tag(index: usize) -> String {
    format!("share{index}")
}

/// Makes the empty folders of a machine.
pub fn create(shares: &[Share], folder: &Path) -> Result<()> {
    for (index, share) in shares.iter().enumerate() {
        if share.folder == Folder::Empty {
            std::fs::create_dir(share.path(index, folder))?;
        }
    }
    Ok(())
}

/// Whether the guest writes files of this machine, of which nobody knows how large they become.
pub fn any_written(shares: &[Share]) -> bool {
    shares.iter().any(|share| !share.read_only)
}

/// For each folder, QEMU's words for it and for its device. Files on the host have the permissions
/// and, as far as that may be, the owners that the guest gives them (`security_model=none`); files
/// of several file systems have different numbers in the guest (`multidevs=remap`).
pub fn options(shares: &[Share], arch: Arch, folder: &Path) -> Vec<(String, String)> {
    let words = |(index, share): (usize, &Share)| {
        let path = share.path(index, folder).display().to_string();
        let (id, path) = (tag(index), path.replace(',', ",,"));
        let read_only = if share.read_only { ",readonly=on" } else { "" };
        let server =
            format!("local,id={id},path={path},security_model=none,multidevs=remap{read_only}");
        let device = format!("virtio-9p-device,fsdev={id},mount_tag={id}");
        (server, device)
    };
    let mut options: Vec<_> = shares.iter().enumerate().map(words).collect();
    if arch == Arch::Arm64 {
        options.reverse();
    }
    options
}

/// Makes PID 1 mount the folders.
pub fn fill(shares: &[Share], tree: &mut Initramfs) {
    let line = |(index, share): (usize, &Share)| {
        let how = if share.read_only { "ro" } else { "rw" };
        format!("{} {how} {}\n", tag(index), share.place)
    };
    let lines: String = shares.iter().enumerate().map(line).collect();
    tree.text(wire::SHARES_PATH, lines.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        format!("{:#}", Share::parse_all(&[text.to_owned()]).unwrap_err())
    }

    #[test]
    fn folders_and_places() {
        let folder = std::env::temp_dir().join(format!("stile-share-{}", std::process::id()));
        let odd = folder.join("a,b");
        std::fs::create_dir_all(&odd).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        let (base, odd) = (folder.display(), odd.display());
        let shares = [format!("{odd}"), format!("{base}:/src,ro")];
        let shares = Share::parse_all(&shares).unwrap();
        let places = shares.iter().map(|share| (&*share.place, share.read_only));
        assert!(places.eq([("/host/a,b", false), ("/src", true)]));
        let words = options(&shares, Arch::Riscv64, Path::new("/none"));
        assert!(words[0].0.contains("/a,,b,security_model=none"));
        assert!(words[0].0.ends_with("multidevs=remap"));
        assert!(words[1].0.ends_with("multidevs=remap,readonly=on"));
        for (text, reason) in [
            (format!("{base}/none"), "No such file"),
            (format!("{base}/file"), "is not a folder"),
            (format!("{base}:src"), "must start with a slash"),
            ("/".to_owned(), "has no name"),
        ] {
            assert!(refused(&text).contains(reason), "{text}");
        }
        let twice = [format!("{base}:/a"), format!("{odd}:/a")];
        assert!(Share::parse_all(&twice).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
