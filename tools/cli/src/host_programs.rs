//! Debian's programs that run on this machine: unpacked in the cache with all their libraries and
//! their loader, so that they do not depend on the machine's own.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::debian::Debian;
use crate::packages;
use crate::project::Project;

/// Packages that are unpacked together.
pub struct HostPrograms {
    tree: PathBuf,
    host: Host,
}

/// Debian's names of the host's architecture, of its library folder, and of the dynamic loader.
struct Host {
    arch: &'static str,
    folder: &'static str,
    loader: &'static str,
}

impl HostPrograms {
    /// The packages and what they need; `name` is theirs in the cache.
    pub fn new(project: &Project, name: &str, packages: &[&str]) -> Result<Self> {
        let host = host()?;
        let tree = Debian::new(project, packages::SUITE, host.arch).closure(name, packages)?;
        Ok(Self { tree, host })
    }

    /// The same if they are in the cache.
    pub fn cached(project: &Project, name: &str) -> Option<Self> {
        let host = host().ok()?;
        let tree = Debian::new(project, packages::SUITE, host.arch).closure_place(name);
        tree.is_dir().then_some(Self { tree, host })
    }

    /// The path of a file of theirs.
    pub fn file(&self, path: &str) -> PathBuf {
        self.tree.join(path)
    }

    /// The words that start a program of theirs.
    pub fn command(&self, program: &str) -> Vec<OsString> {
        let libraries = self.file(&format!("usr/lib/{}", self.host.folder));
        vec![
            libraries.join(self.host.loader).into(),
            "--library-path".into(),
            libraries.into(),
            self.file(program).into(),
        ]
    }
}

fn host() -> Result<Host> {
    Ok(match std::env::consts::ARCH {
        "x86_64" => Host {
            arch: "amd64",
            folder: "x86_64-linux-gnu",
            loader: "ld-linux-x86-64.so.2",
        },
        "aarch64" => Host {
            arch: "arm64",
            folder: "aarch64-linux-gnu",
            loader: "ld-linux-aarch64.so.1",
        },
        other => bail!("no Debian programs are known for {other} hosts"),
    })
}
