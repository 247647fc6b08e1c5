//! The checkout: its paths, and how its helper programs are run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// If a tool runs longer than this, a line tells the user what it does.
const QUIET: Duration = Duration::from_millis(700);

/// The profile of a kernel that checks its assertions.
const CHECKED: &str = "checked";

/// The checkout that the command belongs to.
#[derive(Clone)]
pub struct Project {
    /// Its root.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// Downloads and unpacked packages; safe to remove.
    pub cache: PathBuf,
    /// Download nothing.
    pub offline: bool,
    /// The profile that the kernel is built with (Cargo.toml).
    pub kernel_profile: &'static str,
}

impl Project {
    /// The project that the script `stile` names in the environment, or else the one that this was
    /// built in.
    pub fn open(offline: bool) -> Result<Self> {
        let directory = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = directory("STILE_ROOT")
            .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        let target = directory("STILE_TARGET").unwrap_or_else(|| root.join("target"));
        let cache = directory("STILE_CACHE").unwrap_or_else(|| root.join(".cache"));
        fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
        Ok(Self {
            root,
            target,
            cache,
            offline,
            kernel_profile: "kernel",
        })
    }

    /// This project, with a kernel that checks its assertions.
    pub fn checked(&self) -> Self {
        Self {
            kernel_profile: CHECKED,
            ..self.clone()
        }
    }

    /// Whether its kernel checks its assertions.
    pub fn is_checked(&self) -> bool {
        self.kernel_profile == CHECKED
    }

    /// Waits until no other `stile` is filling the cache; none can until the file is dropped.
    pub fn lock_cache(&self) -> Result<File> {
        lock(&self.cache.join("lock"))
    }

    /// Waits until no other `stile` is building a kernel; none can until the file is dropped.
    pub fn lock_target(&self) -> Result<File> {
        fs::create_dir_all(&self.target)?;
        lock(&self.target.join("kernel.lock"))
    }

    /// A text in which this machine's paths are relative to a checkout with its cache and target in
    /// their default places.
    pub fn relative(&self, text: &str) -> String {
        let folder = |path: &Path| format!("{}/", path.display());
        text.replace(&folder(&self.cache), ".cache/")
            .replace(&folder(&self.target), "target/")
            .replace(&folder(&self.root), "")
    }

    /// A cargo command in the checkout.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        self.cargo_in("", arguments)
    }

    /// A cargo command with a folder of its own, for a build that shares nothing with others.
    pub fn cargo_in(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command
            .current_dir(&self.root)
            .args(arguments)
            .arg("--target-dir")
            .arg(self.target.join(folder));
        if self.offline {
            command.arg("--offline");
        }
        command
    }
}

/// Creates a file, and waits until nobody else has it locked.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock()?;
    Ok(file)
}

/// Replaces a file's content in one step, if it differs: a machine that boots from it meanwhile
/// sees either the old or the new content.
pub fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let new = path.with_added_extension(std::process::id().to_string());
    fs::write(&new, content)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Tells the user once about work that takes time.
pub fn progress(what: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.insert(what.to_owned()) {
        tell!("stile: {what}");
    }
}

/// Runs a tool to its end; returns its standard output. Prints what it does (`what`) if it takes
/// long; if it fails, the error has its messages.
pub fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = run(command, what)?;
    if !output.status.success() {
        let name = Path::new(command.get_program()).display();
        bail!("{what}: {name} failed\n{}", output_text(&output).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// As [`output`], for tools with much output: the error has only the line with the reason.
pub fn output_or_reason(command: &mut Command, what: &str) -> Result<String> {
    let output = run(command, what)?;
    if !output.status.success() {
        bail!("{what}: {}", reason(&output_text(&output)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a quiet compiler to its end, and passes on its warnings.
pub fn output_and_warnings(command: &mut Command, what: &str) -> Result<()> {
    let output = run(command, what)?;
    if !output.status.success() {
        let name = Path::new(command.get_program()).display();
        bail!("{what}: {name} failed\n{}", output_text(&output).trim_end());
    }
    _ = stderr().write_all(&output.stderr);
    Ok(())
}

fn output_text(output: &Output) -> String {
    let said = [&*output.stderr, &*output.stdout].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// The line of apt's or dpkg's output with the reason of a failure: the first of its errors, or
/// else the last line.
fn reason(said: &str) -> &str {
    let error = said.lines().find_map(|line| line.strip_prefix("E: "));
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    error.or(last).unwrap_or("it does not say why").trim()
}

/// Runs a tool to its end. Prints what it does (`what`) if it takes long.
fn run(command: &mut Command, what: &str) -> Result<Output> {
    let name = command.get_program().to_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .with_context(|| format!("{} cannot be run", Path::new(&name).display()))?;
    let (done, wait) = mpsc::channel::<()>();
    let what_now = what.to_owned();
    let watch = std::thread::spawn(move || {
        if wait.recv_timeout(QUIET) == Err(mpsc::RecvTimeoutError::Timeout) {
            progress(&what_now);
        }
    });
    let output = child.wait_with_output()?;
    drop(done);
    let _ = watch.join();
    Ok(output)
}

/// The path of a program found in `PATH`.
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name.as_ref()))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_failure_is_told_in_one_line() {
        let apt = "Err:1 http://m/debian trixie InRelease\n  Could not connect\nE: Failed to fetch x  Could not connect\nE: Some index files failed";
        assert_eq!(reason(apt), "Failed to fetch x  Could not connect");
        let dpkg = "dpkg-deb: error: tar\ntar: ./usr: Cannot write: No space left on device\n\n";
        assert_eq!(
            reason(dpkg),
            "tar: ./usr: Cannot write: No space left on device"
        );
        assert_eq!(reason(""), "it does not say why");
    }
}
