//! Debian packages of any architecture, fetched by name into the cache and unpacked there.
//!
//! The mirror comes from the machine's own apt configuration or from `STILE_DEBIAN_MIRROR`. apt
//! uses a state directory of its own below the cache, so nothing outside the project is changed,
//! and only the mirror's name and Debian's keys are read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};

use crate::project::{Project, find_program, output, output_or_reason};

/// Debian's keys.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A name that stands for package sources instead of an architecture.
pub const SOURCES: &str = "source";

/// The directory in which dpkg keeps the maintainer scripts of packages.
pub const INFO: &str = "var/lib/dpkg/info";

/// Marks a state whose package lists have been read.
const UPDATED: &str = "updated";

/// The maximum time for retries while a mirror is being updated, counted from the first such
/// failure.
const RENEWAL: Duration = Duration::from_secs(15 * 60);

/// The pause between two such retries.
const PAUSE: Duration = Duration::from_secs(20);

/// Names that a release also has for some years; a mirror has a separate index for each.
const ALIASES: [&str; 2] = ["stable", "oldstable"];

/// Apt's messages about a mirror that [`is_renewed`].
const RENEWED: [&str; 3] = [
    "Mirror sync in progress",
    "File has unexpected size",
    "Hash Sum mismatch",
];

/// One release of Debian for one architecture.
pub struct Debian<'a> {
    project: &'a Project,
    suite: String,
    arch: String,
    folder: PathBuf,
}

impl<'a> Debian<'a> {
    /// The release `suite` for Debian's architecture `arch`.
    pub fn new(project: &'a Project, suite: &str, arch: &str) -> Self {
        let folder = project.cache.join("debian").join(format!("{suite}-{arch}"));
        Self {
            project,
            suite: suite.into(),
            arch: arch.into(),
            folder,
        }
    }

    /// Debian's architecture.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// Whether a package is in the cache.
    pub fn cached(&self, name: &str) -> bool {
        self.place(name).is_dir()
    }

    /// A package in the cache whose name begins with `start`.
    pub fn cached_beginning(&self, start: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.folder.join("packages")).ok()?;
        let begins = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(start)
        };
        entries.flatten().map(|entry| entry.path()).find(begins)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join("packages").join(name)
    }

    /// The folder in which a package is unpacked; the package is downloaded first if necessary.
    pub fn package(&self, name: &str) -> Result<PathBuf> {
        let place = self.place(name);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self.project.lock_cache()?;
        if place.is_dir() {
            return Ok(place);
        }
        self.prepare(name)?;
        let download = self.fresh_folder("download")?;
        let fetch = |debian: &Self| {
            let mut apt = debian.apt("apt-get");
            apt.current_dir(&download)
                .args(["download", "--quiet"])
                .arg(name);
            let what = format!(
                "downloading {name} ({}) from Debian {}",
                debian.arch, debian.suite
            );
            output_or_reason(&mut apt, &what)
        };
        if fetch(self).is_err() {
            self.update()?;
            fetch(self)?;
        }
        self.unpack(&download, &place)?;
        Ok(place)
    }

    /// The folder with the source of a package as its authors released it; for the architecture
    /// [`SOURCES`].
    pub fn source(&self, name: &str) -> Result<PathBuf> {
        let place = self.place(name);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self.project.lock_cache()?;
        if place.is_dir() {
            return Ok(place);
        }
        self.prepare(name)?;
        let download = self.fresh_folder("download")?;
        let mut apt = self.apt("apt-get");
        apt.current_dir(&download)
            .args(["source", "--download-only", "--quiet"])
            .arg(name);
        let what = format!(
            "downloading the source of {name} from Debian {}",
            self.suite
        );
        output_or_reason(&mut apt, &what)?;
        let mut files = fs::read_dir(&download)?.flatten();
        let released = files.find(|file| file.file_name().to_string_lossy().contains(".orig.tar."));
        let released = released.with_context(|| format!("{name} has no released source"))?;
        let tree = self.fresh_folder("unpack")?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--strip-components=1", "--file"])
            .arg(released.path())
            .arg("--directory")
            .arg(&tree);
        output_or_reason(&mut tar, &format!("unpacking the source of {name}"))?;
        install_tree(&tree, &place)?;
        Ok(place)
    }

    /// The folder in which [`Debian::closure`] unpacks.
    pub fn closure_place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A folder with the packages and everything that they depend on, unpacked together.
    pub fn closure(&self, name: &str, packages: &[&str]) -> Result<PathBuf> {
        let place = self.closure_place(name);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self.project.lock_cache()?;
        if place.is_dir() {
            return Ok(place);
        }
        self.prepare(name)?;
        let fetch = |debian: &Self| {
            let mut apt = debian.apt("apt-get");
            apt.args(["install", "--yes", "--quiet", "--download-only"])
                .args(packages);
            let what = format!(
                "downloading {} and what it needs ({}) from Debian {}",
                packages.join(", "),
                debian.arch,
                debian.suite
            );
            output_or_reason(&mut apt, &what)
        };
        if fetch(self).is_err() {
            self.update()?;
            fetch(self)?;
        }
        self.unpack(&self.state().join("cache/archives"), &place)?;
        Ok(place)
    }

    /// The packages and everything that they depend on, in the order in which dpkg would configure
    /// them.
    pub fn order(&self, packages: &[&str]) -> Result<Vec<String>> {
        let _lock = self.project.lock_cache()?;
        self.prepare(&packages.join(", "))?;
        let mut apt = self.apt("apt-get");
        apt.args(["install", "--simulate"]).args(packages);
        let plan = output(&mut apt, "ordering packages")?;
        let configured = plan.lines().filter_map(|line| line.strip_prefix("Conf "));
        let names = configured.filter_map(|rest| rest.split(' ').next());
        Ok(names.map(str::to_owned).collect())
    }

    /// Unpacks a tar archive into the cache under this name, completely or not at all.
    pub fn keep(&self, name: &str, archive: &[u8]) -> Result<()> {
        let _lock = self.project.lock_cache()?;
        let place = self.closure_place(name);
        if place.is_dir() {
            return Ok(());
        }
        let tree = self.fresh_folder("unpack")?;
        let file = self.folder.join("archive.tar");
        fs::write(&file, archive)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--preserve-permissions", "--file"])
            .arg(&file)
            .arg("--directory")
            .arg(&tree);
        output_or_reason(&mut tar, "keeping what was configured")?;
        fs::remove_file(file)?;
        install_tree(&tree, &place)
    }

    /// A field of a package's record, such as `Depends`; `None` if there is no such package or
    /// field.
    pub fn field(&self, package: &str, field: &str) -> Result<Option<String>> {
        let _lock = self.project.lock_cache()?;
        self.prepare(package)?;
        let mut apt = self.apt("apt-cache");
        apt.args(["show", "--no-all-versions", package]);
        let Ok(record) = output(&mut apt, "reading Debian's package lists") else {
            return Ok(None);
        };
        let start = format!("{field}: ");
        Ok(record
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .map(str::to_owned))
    }

    /// Whether the package lists are in the cache.
    pub fn has_lists(&self) -> bool {
        self.state().join(UPDATED).exists()
    }

    fn state(&self) -> PathBuf {
        self.folder.join("apt")
    }

    /// Creates the private state and reads the package lists, if that has not been done yet.
    fn prepare(&self, wanted: &str) -> Result<()> {
        if self.project.offline {
            bail!(
                "{wanted} ({}) is not in the cache, and --offline forbids downloading it",
                self.arch
            );
        }
        if self.state().join(UPDATED).exists() {
            return Ok(());
        }
        for tool in ["apt-get", "dpkg-deb"] {
            if find_program(tool).is_none() {
                bail!(
                    "{wanted} ({}) comes from Debian, and this machine has no {tool} to fetch it",
                    self.arch
                );
            }
        }
        if !Path::new(KEYRING).exists() {
            bail!(
                "{wanted} ({}) comes from Debian, whose keys are missing: install debian-archive-keyring",
                self.arch
            );
        }
        for folder in ["lists/partial", "cache/archives/partial", "etc"] {
            create_folder(&self.state().join(folder))?;
        }
        write(&self.state().join("status"), "")?;
        self.update()
    }

    /// Reads the package lists; if the mirror is being updated, tries the release's other name and
    /// keeps to it.
    fn update(&self) -> Result<()> {
        let updated = self.state().join(UPDATED);
        let sources = self.state().join("etc/sources.list");
        let before = fs::read_to_string(&sources);
        let Err(error) = until_renewed(PAUSE, || self.read_lists(&sources)) else {
            return write(&updated, "");
        };
        // Older lists are better than none, but a mirror that never answered is not kept.
        match before {
            Ok(before) if updated.exists() => write(&sources, &before)?,
            _ => _ = fs::remove_dir_all(self.state()),
        }
        bail!("{error} (STILE_DEBIAN_MIRROR may name another mirror)")
    }

    fn read_lists(&self, sources: &Path) -> Result<()> {
        let mirror = mirror()?;
        let what = format!(
            "reading the package lists of Debian {} for {}",
            self.suite, self.arch
        );
        let read = |name: &str| {
            let kind = match &*self.arch {
                SOURCES => format!("deb-src [signed-by={KEYRING}]"),
                arch => format!("deb [arch={arch} signed-by={KEYRING}]"),
            };
            write(sources, &format!("{kind} {mirror} {name} main non-free\n"))?;
            let mut apt = self.apt("apt-get");
            apt.args(["update", "--quiet", "--error-on=any"]);
            // A caching proxy may mix files of different hours.
            apt.args(["-o", "Acquire::http::No-Cache=true"]);
            output_or_reason(&mut apt, &what).map(drop)
        };
        let is_it = || -> Result<bool> {
            let mut apt = self.apt("apt-get");
            apt.args(["indextargets", "--format", "$(CODENAME)"]);
            let names = output(&mut apt, "asking apt what it read")?;
            Ok(names.lines().next() == Some(&self.suite))
        };
        let answer = read(&self.suite);
        if answer.as_ref().is_err_and(is_renewed) {
            for alias in ALIASES {
                if read(alias).is_ok() && is_it()? {
                    return Ok(());
                }
            }
        }
        answer
    }

    /// An apt tool that uses the private state.
    fn apt(&self, tool: &str) -> Command {
        let state = self.state();
        let path = |below: &str| state.join(below).display().to_string();
        let mut command = Command::new(tool);
        for setting in [
            format!("Dir::State={}", state.display()),
            format!("Dir::State::status={}", path("status")),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::Cache={}", path("cache")),
            format!("Dir::Etc::sourcelist={}", path("etc/sources.list")),
            "Dir::Etc::sourceparts=/dev/null".into(),
            "Dir::Etc::preferences=/dev/null".into(),
            "Dir::Etc::preferencesparts=/dev/null".into(),
            "APT::Install-Recommends=false".into(),
            "APT::Sandbox::User=".into(),
            "Acquire::Retries=3".into(),
            "Debug::NoLocking=true".into(),
            format!("APT::Architecture={}", self.arch),
            format!("APT::Architectures={}", self.arch),
        ] {
            command.arg("-o").arg(setting);
        }
        command
    }

    /// Unpacks every package file in a folder into `place`, which appears completely or not at all.
    fn unpack(&self, archives: &Path, place: &Path) -> Result<()> {
        let tree = self.fresh_folder("unpack")?;
        for entry in fs::read_dir(archives)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                let what = format!("unpacking {}", file.display());
                output_or_reason(
                    Command::new("dpkg-deb").arg("-x").arg(&file).arg(&tree),
                    &what,
                )?;
                unpack_scripts(&file, &tree)?;
                fs::remove_file(file)?;
            }
        }
        install_tree(&tree, place)
    }

    fn fresh_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        create_folder(&folder)?;
        Ok(folder)
    }
}

/// Stores the scripts of a package where dpkg keeps them.
fn unpack_scripts(archive: &Path, tree: &Path) -> Result<()> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('_').next().unwrap_or_default();
    let control = archive.with_extension("control");
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.arg("--control").arg(archive).arg(&control);
    output_or_reason(&mut dpkg, &format!("reading {}", archive.display()))?;
    create_folder(&tree.join(INFO))?;
    for kind in ["config", "control", "postinst", "templates"] {
        let file = control.join(kind);
        if file.is_file() {
            fs::rename(file, tree.join(INFO).join(format!("{name}.{kind}")))?;
        }
    }
    Ok(fs::remove_dir_all(control)?)
}

/// Retries while a mirror is being updated, for at most [`RENEWAL`] in all.
fn until_renewed(pause: Duration, ask: impl Fn() -> Result<()>) -> Result<()> {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    loop {
        let answer = ask();
        let again = answer.as_ref().is_err_and(is_renewed)
            && FIRST.get_or_init(Instant::now).elapsed() < RENEWAL;
        if !again {
            return answer;
        }
        tell!("stile: the mirror is being renewed; asking again soon");
        sleep(pause);
    }
}

/// Whether apt found a mirror whose index does not match the files that it names.
fn is_renewed(error: &Error) -> bool {
    let said = error.to_string();
    RENEWED.iter().any(|words| said.contains(words))
}

/// Moves a complete tree to its final place.
fn install_tree(tree: &Path, place: &Path) -> Result<()> {
    create_folder(place.parent().context("a package's place has a parent")?)?;
    Ok(fs::rename(tree, place)?)
}

fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn write(file: &Path, content: &str) -> Result<()> {
    fs::write(file, content).with_context(|| format!("cannot write {}", file.display()))
}

/// Requests the smallest file that a release has from the mirror through apt, which handles proxies
/// and the like.
pub fn probe(mirror: &str) -> Result<()> {
    let release = format!(
        "{}/dists/{}/Release.gpg",
        mirror.trim_end_matches('/'),
        crate::packages::SUITE
    );
    let target = std::env::temp_dir().join(format!("stile-doctor-{}", std::process::id()));
    let mut apt = Command::new("/usr/lib/apt/apt-helper");
    apt.args(["download-file", &release]).arg(&target);
    let answer = output_or_reason(&mut apt, "asking the mirror");
    _ = fs::remove_file(&target);
    answer.map(drop)
}

/// The address of the Debian mirror to use.
pub fn mirror() -> Result<String> {
    if let Ok(mirror) = std::env::var("STILE_DEBIAN_MIRROR") {
        return Ok(mirror);
    }
    let sites = |filters: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args([
            "indextargets",
            "--format",
            "$(SITE)",
            "Created-By: Packages",
        ])
        .args(filters);
        output(&mut apt, "asking apt for its mirror").unwrap_or_default()
    };
    let labelled = sites(&["Label: Debian"]);
    let all = sites(&[]);
    let debian = |site: &&str| site.trim_end_matches('/').ends_with("/debian");
    labelled
        .lines()
        .next()
        .or_else(|| all.lines().find(debian))
        .map(str::to_owned)
        .context(
            "no Debian mirror in this machine's apt configuration: name one by STILE_DEBIAN_MIRROR",
        )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_mirror_that_is_being_renewed_is_asked_again() {
        let asked = Cell::new(0);
        let answer = until_renewed(Duration::ZERO, || {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => bail!("File has unexpected size (1 != 2). Mirror sync in progress?"),
                _ => Ok(()),
            }
        });
        assert!(answer.is_ok());
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn a_mirror_that_does_not_answer_is_asked_once() {
        let asked = Cell::new(0);
        let answer = until_renewed(Duration::ZERO, || {
            asked.set(asked.get() + 1);
            bail!("Could not connect");
        });
        assert!(answer.is_err());
        assert_eq!(asked.get(), 1);
    }
}
