//! Container images as `docker save`, podman and skopeo write them: their layers become one
//! file system in the cache, and their configuration says what runs.
//!
//! All layers are merged into one EROFS here instead of by overlayfs in the guest. An image may
//! have more layers than a machine has places for disks, and a tree of one layer costs the guest
//! one mount and one look-up per name.

mod archive;
mod config;
mod digest;
mod erofs;
mod keep;
mod layer;
mod manifest;
mod source;
mod tree;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::arch::Arch;
use crate::disk::Disk;
use crate::host_programs::HostPrograms;
use crate::initramfs::Initramfs;
use crate::project::{Project, progress};
use crate::session::Folder;
use config::Asked;
pub use config::Config;
pub use digest::Digest;
use keep::Kept;
use layer::MOST_BYTES;
use manifest::Contents;
use source::Source;
use tree::Tree;

/// Changes with what is written for the same layers.
const FORMAT: &str = "stile image 1";
/// The folder of images in the cache.
const FOLDER: &str = "containers";
/// The packages with the programs that make file systems, and their name in the cache.
const PACKAGES: [&str; 2] = ["erofs-utils", "e2fsprogs"];
const CLOSURE: &str = "mkfs";

/// The modules that Debian's Linux needs for an image besides those of its disks.
pub const LINUX_MODULE: &str = "fs/overlayfs/overlay";

/// The disks of an image: its file system, and what keeps the writes.
pub struct Disks {
    /// The disks.
    pub disks: Vec<Disk>,
    /// Nobody else has them meanwhile.
    _kept: Option<Kept>,
}

/// An image that was chosen.
pub struct Image {
    /// As the user names it.
    name: String,
    source: Source,
    contents: Contents,
    /// The architecture of its programs.
    pub arch: Arch,
}

/// An error about an image. Its text may be the image's own, which must not reach a terminal as it
/// is.
fn about(name: &str, error: anyhow::Error) -> anyhow::Error {
    let shown = |text: char| match text.is_control() {
        true => text.escape_default().to_string(),
        false => text.to_string(),
    };
    let text: String = format!("{error:#}").chars().map(shown).collect();
    anyhow!("the image {name}: {text}")
}

impl Image {
    /// The image that `PATH[:NAME]` describes, for an architecture.
    pub fn open(text: &str, asked: Option<Arch>) -> Result<Self> {
        let (path, name) = split(text);
        let open = || {
            let source = Source::open(path)?;
            let contents = manifest::find(&source, name, asked)?;
            let arch = match contents.config.architecture.as_str() {
                "arm64" => Arch::Arm64,
                "riscv64" => Arch::Riscv64,
                other => bail!("its configuration is for {other}"),
            };
            if asked.is_some_and(|asked| asked != arch) {
                bail!("its configuration is for {}", arch.debian());
            }
            Ok(Self {
                name: text.to_owned(),
                source,
                contents,
                arch,
            })
        };
        open().map_err(|error| about(text, error))
    }

    /// How its program is started.
    pub fn config(&self) -> &Config {
        &self.contents.config
    }

    /// The program and its arguments, with what the user asks for.
    pub fn command(
        &self,
        entrypoint: Option<&[u8]>,
        arguments: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>> {
        self.config().command(Asked {
            entrypoint,
            arguments,
        })
    }

    /// What distinguishes its file system from others.
    fn key(&self) -> String {
        let digests = self.contents.layers.iter();
        let digests: String = digests
            .map(|layer| format!("\n{}", layer.content))
            .collect();
        Digest::of(format!("{FORMAT}{digests}").as_bytes()).hex()
    }

    /// The path of its file system, which may not exist yet.
    fn place(&self, project: &Project) -> PathBuf {
        let name = format!("{}.erofs", self.key());
        project.cache.join(FOLDER).join(name)
    }

    /// The disks that a machine needs for it. Those that are not in the cache are made, unless only
    /// their names are wanted.
    pub fn disks(&self, project: &Project, keep: Option<&str>, planned: bool) -> Result<Disks> {
        let place = self.place(project);
        let mut disks = vec![Disk::raw(place.clone(), true)];
        if planned {
            if let Some(name) = keep {
                disks.push(Disk::raw(Kept::place(project, name)?, false));
            }
            return Ok(Disks { disks, _kept: None });
        }
        if !place.is_file() {
            let made = self.make(project, &place);
            made.map_err(|error| about(&self.name, error))?;
        }
        let kept = keep.map(|name| Kept::open(project, name, self));
        let kept = kept.transpose()?;
        disks.extend(kept.iter().map(Kept::disk));
        Ok(Disks { disks, _kept: kept })
    }

    /// Makes PID 1 start from the image, whose disks follow this number of others.
    pub fn fill(&self, tree: &mut Initramfs, others: usize, disks: &Disks) -> Result<()> {
        let name = |number: usize| {
            let letter = (b'a'..=b'z')
                .nth(number)
                .context("there are too many disks")?;
            Ok(format!("/dev/vd{}", char::from(letter)))
        };
        let names = (others..others + disks.disks.len()).map(name);
        let names = names.collect::<Result<Vec<_>>>()?;
        tree.text(
            wire::IMAGE_PATH.trim_start_matches('/'),
            names.join(" ").as_bytes(),
        );
        tree.text("etc/hosts", b"127.0.0.1 localhost\n::1 localhost\n");
        Ok(())
    }

    /// Makes the file system in a folder of its own, and gives it its name when it is complete: two
    /// that do the same at once do not meet.
    fn make(&self, project: &Project, place: &Path) -> Result<()> {
        let programs = HostPrograms::new(project, CLOSURE, &PACKAGES)?;
        progress(&format!("unpacking {} (once)", self.name));
        let folder = Folder::new(project.cache.join(FOLDER).join("new"))?;
        let (mut tree, mut archives, mut budget) = (Tree::new(), Vec::new(), MOST_BYTES);
        for (number, layer) in self.contents.layers.iter().enumerate() {
            let archive = folder.file(&format!("layer{number}.tar"));
            let mut add = || {
                layer.unpack(&self.source, &archive, &mut budget)?;
                tree.add(layer::entries(&archive)?)
            };
            add().with_context(|| format!("layer {} ({})", number + 1, layer.name))?;
            archives.push(archive);
        }
        tree.check()?;
        let new = folder.file("erofs");
        let mut command = command(programs.command("usr/bin/mkfs.erofs"));
        command.env("TMPDIR", folder.path());
        erofs::make(command, &tree, &archives, &new)?;
        fs::rename(new, place).with_context(|| place.display().to_string())
    }
}

/// The path of an image, and the name after it.
fn split(text: &str) -> (&Path, Option<&str>) {
    let path = Path::new(text);
    if !path.exists() {
        let mut colons = text.match_indices(':').map(|(at, _)| at);
        if let Some(at) = colons.find(|at| Path::new(&text[..*at]).exists()) {
            return (Path::new(&text[..at]), Some(&text[at + 1..]));
        }
    }
    (path, None)
}

/// The command of these words.
fn command(words: Vec<OsString>) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
