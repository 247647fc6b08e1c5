//! The guest's initial file tree, written as a cpio archive in the "newc" format.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc::{Builder, trailer};

use crate::arch::Arch;
use crate::elf;
use crate::packages;
use crate::project::Project;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;

/// Parts of a package that are left out because nothing runs them.
const NOT_RUN: [&str; 6] = [
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// The users and groups that programs look for by name, with Debian's numbers.
const PASSWD: &[u8] = b"\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
bin:x:2:2:bin:/bin:/bin/false
sys:x:3:3:sys:/dev:/bin/false
mail:x:8:8:mail:/var/mail:/bin/false
www-data:x:33:33:www-data:/var/www:/bin/false
nobody:x:65534:65534:nobody:/:/bin/false
";
const GROUP: &[u8] = b"\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
www-data:x:33:
users:x:100:
nogroup:x:65534:
";

/// One file of the tree.
enum Node {
    Directory(u32),
    Host(PathBuf, u32),
    Text(Vec<u8>, u32),
    Link(String),
    Device { major: u32, minor: u32 },
}

/// A file tree for a guest. If a path is added twice, the later content counts.
pub struct Initramfs<'a> {
    project: &'a Project,
    arch: Arch,
    nodes: BTreeMap<String, Node>,
}

impl<'a> Initramfs<'a> {
    /// Creates a tree with the usual folders; `init` is PID 1.
    pub fn new(project: &'a Project, arch: Arch) -> Self {
        let mut tree = Self {
            project,
            arch,
            nodes: BTreeMap::new(),
        };
        for folder in [
            "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib", "usr/sbin",
            "var",
        ] {
            tree.folder(folder);
        }
        for folder in ["tmp", "var/tmp"] {
            tree.nodes.insert(folder.into(), Node::Directory(0o1777));
        }
        for (link, target) in [
            ("bin", "usr/bin"),
            ("sbin", "usr/sbin"),
            ("lib", "usr/lib"),
            ("lib64", "usr/lib"),
        ] {
            tree.link(link, target);
        }
        tree.nodes
            .insert("dev/console".into(), Node::Device { major: 5, minor: 1 });
        tree.nodes
            .insert("dev/null".into(), Node::Device { major: 1, minor: 3 });
        tree.text("etc/passwd", PASSWD);
        tree.add("etc/shadow", Node::Text(shadow(), 0o640));
        tree.text("etc/group", GROUP);
        tree.text("etc/hostname", b"guest\n");
        tree
    }

    /// Adds modules that PID 1 loads, in this order.
    pub fn modules(&mut self, files: &[PathBuf]) -> Result<()> {
        for (at, file) in files.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            self.file(&format!("stile/modules/{at}-{name}"), file)?;
        }
        Ok(())
    }

    /// Adds busybox under all its names.
    pub fn add_busybox(&mut self) -> Result<()> {
        let busybox = packages::busybox(self.project, self.arch)?;
        for applet in elf::busybox_applets(&fs::read(&busybox)?) {
            self.link(&format!("usr/bin/{applet}"), "busybox");
        }
        self.file("usr/bin/busybox", &busybox)
    }

    /// Adds an empty folder and the folders above it.
    pub fn folder(&mut self, path: &str) {
        let path = clean(path);
        let mut at = 0;
        while let Some(slash) = path[at..].find('/') {
            self.nodes
                .entry(path[..at + slash].into())
                .or_insert(Node::Directory(0o755));
            at += slash + 1;
        }
        if !path.is_empty() {
            self.nodes.entry(path).or_insert(Node::Directory(0o755));
        }
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, Node::Link(target.into()));
    }

    /// Adds a file with this content.
    pub fn text(&mut self, path: &str, content: &[u8]) {
        self.add(path, Node::Text(content.to_vec(), 0o644));
    }

    /// Adds a program with this text.
    pub fn script(&mut self, path: &str, text: &[u8]) {
        self.add(path, Node::Text(text.to_vec(), 0o755));
    }

    /// Adds a host file, with its interpreter and libraries if it is a dynamically linked program.
    pub fn file(&mut self, path: &str, host: &Path) -> Result<()> {
        let mode = fs::metadata(host)
            .with_context(|| host.display().to_string())?
            .mode()
            & 0o7777;
        self.add(path, Node::Host(host.into(), mode));
        self.libraries_of(host)
    }

    /// Adds a host file, folder or link, with all that is below it.
    pub fn copy(&mut self, path: &str, host: &Path) -> Result<()> {
        let kind = fs::symlink_metadata(host).with_context(|| host.display().to_string())?;
        if kind.is_symlink() && !fs::metadata(host).is_ok_and(|target| target.is_dir()) {
            self.link(path, &fs::read_link(host)?.to_string_lossy());
        } else if kind.is_dir() || kind.is_symlink() {
            self.folder(path);
            for entry in fs::read_dir(host)? {
                let entry = entry?;
                self.copy(
                    &format!("{path}/{}", entry.file_name().to_string_lossy()),
                    &entry.path(),
                )?;
            }
        } else if kind.is_file() {
            self.file(path, host)?;
        }
        Ok(())
    }

    /// Adds a package's tree to this one, without files that nobody runs.
    pub fn overlay(&mut self, tree: &Path) -> Result<()> {
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(tree.join(&folder))? {
                let entry = entry?;
                let (below, kind) = (folder.join(entry.file_name()), entry.file_type()?);
                let path = below.to_string_lossy();
                if NOT_RUN.contains(&&*path) {
                    continue;
                }
                if kind.is_dir() {
                    self.folder(&path);
                    folders.push(below);
                } else if kind.is_symlink() {
                    let target = fs::read_link(entry.path())?;
                    self.link(&path, &target.to_string_lossy());
                } else if kind.is_file() {
                    let mode = entry.metadata()?.mode() & 0o7777;
                    self.add(&path, Node::Host(entry.path(), mode));
                }
            }
        }
        Ok(())
    }

    /// Whether there is a program of this name in a folder of `PATH`.
    pub fn has_program(&self, name: &str) -> bool {
        ["usr/sbin", "usr/bin"]
            .into_iter()
            .any(|folder| self.nodes.contains_key(&format!("{folder}/{name}")))
    }

    /// The archive.
    pub fn write(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for (number, (path, node)) in self.nodes.iter().enumerate() {
            let (mode, content) = match node {
                Node::Directory(mode) => (DIRECTORY | mode, Vec::new()),
                Node::Host(file, mode) => (
                    REGULAR | mode,
                    fs::read(file).with_context(|| file.display().to_string())?,
                ),
                Node::Text(content, mode) => (REGULAR | mode, content.clone()),
                Node::Link(target) => (LINK | 0o777, target.clone().into_bytes()),
                Node::Device { .. } => (DEVICE | 0o666, Vec::new()),
            };
            let mut entry = Builder::new(path)
                .mode(mode)
                .ino(number as u32 + 1)
                .nlink(1);
            if let Node::Device { major, minor } = node {
                entry = entry.rdev_major(*major).rdev_minor(*minor);
            }
            let mut writer = entry.write(
                &mut out,
                u32::try_from(content.len()).context("a file above 4 GiB")?,
            );
            writer.write_all(&content)?;
            writer.finish()?;
        }
        trailer(&mut out)?;
        Ok(out)
    }

    fn add(&mut self, path: &str, node: Node) {
        let path = clean(path);
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.nodes.insert(path, node);
    }

    /// Adds the interpreter and libraries that a program names, and the libraries that those name.
    fn libraries_of(&mut self, host: &Path) -> Result<()> {
        let Ok(elf::Kind::Elf(program)) = elf::inspect(host) else {
            return Ok(());
        };
        if program.arch != self.arch {
            return Ok(());
        }
        if let Some(interpreter) = &program.interpreter {
            let name = interpreter.rsplit('/').next().unwrap_or(interpreter);
            self.library(&program, name, interpreter)?;
        }
        let folder = format!("usr/lib/{}", program.library_folder());
        for name in &program.libraries {
            self.library(&program, name, &format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    fn library(&mut self, program: &elf::Program, soname: &str, path: &str) -> Result<()> {
        let path = clean(path);
        if self.nodes.contains_key(&path) {
            return Ok(());
        }
        let package = packages::library(self.project, program.debian(), soname)?;
        let folder = program.library_folder();
        let places = [
            format!("usr/lib/{folder}"),
            "usr/lib".into(),
            format!("lib/{folder}"),
            "lib".into(),
        ];
        let file = places
            .iter()
            .map(|place| package.join(place).join(soname))
            .find(|file| file.exists());
        let file = file.with_context(|| format!("{} has no {soname}", package.display()))?;
        self.file(&path, &file)
    }
}

/// A file without passwords, in which PAM looks up whether an account has expired.
fn shadow() -> Vec<u8> {
    let users = PASSWD
        .split(|byte| *byte == b':' || *byte == b'\n')
        .step_by(7);
    let line = |user: &[u8]| [user, b":*:20000:0:99999:7:::\n"].concat();
    users
        .filter(|user| !user.is_empty())
        .flat_map(line)
        .collect()
}

/// A path in the form of the archive: relative, with the links at the root of this tree resolved.
fn clean(path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let path = parts.collect::<Vec<_>>().join("/");
    let moved = ["bin", "sbin", "lib", "lib64"]
        .into_iter()
        .find_map(|link| {
            let below = path.strip_prefix(link)?.strip_prefix('/')?;
            Some(format!(
                "usr/{}/{below}",
                if link == "lib64" { "lib" } else { link }
            ))
        });
    moved.unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn paths_stand_where_the_links_lead() {
        assert_eq!(
            clean("/lib/ld-linux-aarch64.so.1"),
            "usr/lib/ld-linux-aarch64.so.1"
        );
        assert_eq!(clean("./a//b/"), "a/b");
        assert_eq!(clean("library/x"), "library/x");
        assert_eq!(clean("bin"), "bin");
    }
}
