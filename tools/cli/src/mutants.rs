//! `stile mutants`: breaks the kernel by one line at a time, in a copy of the checkout's last
//! commit, and says whether the tests named for that line notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::{Project, output};
use crate::test::programs::LIMIT_VARIABLE;

/// Options of `mutants`.
#[derive(Args, Debug)]
pub struct MutantsOptions {
    /// Parts of file names: only lines of such files are changed
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// Compare the lists with the source, and test nothing
    #[arg(long, conflicts_with = "files")]
    pub check: bool,
    /// How long a mutant may take to build and test; one that takes longer hangs, and is noticed
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub limit: u32,
    /// The same for each case; the unchanged kernel must do with it, too
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub case_limit: u32,
    /// How many are tried at once, each in a copy of its own
    #[arg(long, value_name = "NUMBER", default_value = "2")]
    pub jobs: NonZeroUsize,
}

/// A change that some test should detect.
#[derive(Debug, Default, PartialEq)]
struct Mutant {
    /// The changed file.
    file: String,
    /// The arguments of `stile test`.
    tests: Vec<String>,
    /// The lines to replace, without indentation; the file has them exactly once.
    old: Vec<String>,
    /// The lines that replace them.
    new: Vec<String>,
    /// Why no test can detect the change, if so.
    reason: Option<String>,
}

/// The result of trying a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Killed,
    Survived,
    /// The mutant survived, as the list says it must.
    Explained,
    /// Its lines are not in the file exactly once, or the changed file does not build.
    Unfit,
}

/// A profile that builds fast, for tests that count no instructions.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_INCREMENTAL", "1"),
    ("CARGO_PROFILE_KERNEL_CODEGEN_UNITS", "256"),
    ("CARGO_PROFILE_KERNEL_LTO", "off"),
    ("CARGO_PROFILE_KERNEL_OPT_LEVEL", "1"),
];

/// Tries the mutants of `tests/mutants`: status 1 if one survived without an explanation, or does
/// not fit.
pub fn mutants(project: &Project, options: &MutantsOptions) -> Result<u8> {
    if options.check {
        let unfit = unfit(&project.root)?;
        unfit.iter().for_each(|line| show!("{line}"));
        return Ok(u8::from(!unfit.is_empty()));
    }
    let mut all = read_lists(&project.root.join("tests/mutants"))?;
    let wanted = |file: &str| {
        options
            .files
            .iter()
            .any(|part| file.contains(part.as_str()))
    };
    all.retain(|mutant| options.files.is_empty() || wanted(&mutant.file));
    let copies: Vec<_> = (0..options.jobs.get())
        .map(|number| copy(project, number))
        .collect::<Result<_>>()?;
    let tests: BTreeSet<_> = all.iter().flat_map(|mutant| &mutant.tests).collect();
    side_by_side(&copies, |number, copy| {
        let share = tests.iter().copied().skip(number).step_by(copies.len());
        pass_unchanged(project, copy, share, options.case_limit)
    })?;
    let next = AtomicUsize::new(0);
    let tried = side_by_side(&copies, |_, copy| {
        let mut tried = Vec::new();
        while let Some(mutant) = all.get(next.fetch_add(1, Relaxed)) {
            let (outcome, by) = mutant.try_in(project, copy, options)?;
            show!("{}{by}", mutant.line(outcome));
            tried.push((folder(&mutant.file), outcome));
        }
        Ok(tried)
    })?;
    let mut folders: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for (folder, outcome) in tried.into_iter().flatten() {
        for folder in [folder, "all".into()] {
            folders.entry(folder).or_default().push(outcome);
        }
    }
    for (folder, outcomes) in &folders {
        let count = |outcome| outcomes.iter().filter(|other| **other == outcome).count();
        show!(
            "{folder}: {} of {} killed, {} explained, {} unfit",
            count(Outcome::Killed),
            outcomes.len(),
            count(Outcome::Explained),
            count(Outcome::Unfit),
        );
    }
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Survived | Outcome::Unfit);
    Ok(u8::from(folders.values().flatten().any(failed)))
}

/// Calls `work` with each copy and its number in parallel threads; returns the results.
fn side_by_side<T: Send>(
    copies: &[PathBuf],
    work: impl Fn(usize, &Path) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = copies
            .iter()
            .enumerate()
            .map(|(number, copy)| scope.spawn(move || work(number, copy)))
            .collect();
        let join = |worker: thread::ScopedJoinHandle<_>| worker.join().expect("a worker panicked");
        workers.into_iter().map(join).collect()
    })
}

/// Checks that the tests pass before anything is changed. Tests that count instructions need
/// another kernel, and run separately.
fn pass_unchanged<'a>(
    project: &Project,
    copy: &Path,
    tests: impl Iterator<Item = &'a String>,
    case_limit: u32,
) -> Result<()> {
    let (counted, others): (Vec<_>, Vec<_>) = tests.partition(|name| is_counted(name));
    for tests in [others, counted]
        .into_iter()
        .filter(|tests| !tests.is_empty())
    {
        let (status, said) = test(project, copy, tests, case_limit, None)?;
        if !status.success() {
            bail!("the tests fail before anything is changed\n{said}");
        }
    }
    Ok(())
}

/// The mutants that no longer fit the source of a checkout, one per line.
pub fn unfit(root: &Path) -> Result<Vec<String>> {
    let all = read_lists(&root.join("tests/mutants"))?;
    let unfit = all.iter().filter(|mutant| mutant.applied(root).is_err());
    Ok(unfit.map(|mutant| mutant.line(Outcome::Unfit)).collect())
}

/// The checkout's last commit, in a folder of the cache where it may be changed; an existing copy
/// keeps its builds.
fn copy(project: &Project, number: usize) -> Result<PathBuf> {
    let copy = project.cache.join(format!("mutants-{number}"));
    let git = |folder: &Path, words: &[&str]| {
        let mut git = Command::new("git");
        output(git.current_dir(folder).args(words), "copying the checkout")
    };
    let commit = git(&project.root, &["rev-parse", "HEAD"])?;
    let commit = commit.trim();
    if copy.join(".git").exists() {
        git(
            &copy,
            &["checkout", "--quiet", "--force", "--detach", commit],
        )?;
        // Removes files written by tests of another commit; builds are ignored files, and stay.
        git(&copy, &["clean", "--quiet", "--force", "-d"])?;
    } else {
        let place = copy.to_str().context("the cache's name is no text")?;
        git(&project.root, &["worktree", "prune"])?;
        git(
            &project.root,
            &["worktree", "add", "--quiet", "--detach", place, commit],
        )?;
    }
    Ok(copy)
}

/// Whether a test counts instructions, so that it needs the kernel as it is shipped.
fn is_counted(test: &str) -> bool {
    test.starts_with("bench/")
}

/// Status of `timeout` where the time was over.
const TIMED_OUT: i32 = 124;

/// Runs tests in the copy, with a limit in seconds; returns how they ended, and their output.
fn test<'a>(
    project: &Project,
    copy: &Path,
    names: impl IntoIterator<Item = &'a String>,
    case_limit: u32,
    limit: Option<u32>,
) -> Result<(ExitStatus, String)> {
    let names: Vec<_> = names.into_iter().collect();
    let mut stile = Command::new("timeout");
    // 0 means no limit.
    stile.arg(limit.unwrap_or(0).to_string());
    stile.arg(copy.join("stile"));
    stile
        .arg("test")
        .args(&names)
        .env_remove("CARGO_TARGET_DIR");
    if !names.iter().any(|name| is_counted(name)) {
        stile.envs(PROFILE);
    }
    stile.env("STILE_CACHE", &project.cache);
    stile.env(LIMIT_VARIABLE, case_limit.to_string());
    let output = stile.output().context("the copy cannot be tested")?;
    let said = [&*output.stdout, &*output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.lines().any(|line| line == "0 passed, 0 failed") {
        bail!("no test of these names");
    }
    Ok((output.status, said))
}

/// The mutants of all files of a folder.
fn read_lists(folder: &Path) -> Result<Vec<Mutant>> {
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files: Vec<_> = files.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        all.extend(parse(&text).with_context(|| file.display().to_string())?);
    }
    Ok(all)
}

/// The mutants of a list: `FILE: TEST…`, then lines after `- `, their replacements after `+ `, and
/// after `= ` the reason why no test can detect the change.
fn parse(list: &str) -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let Some((mark, rest)) = line.split_once(' ') else {
            continue;
        };
        let last = all.last_mut().context("a list begins with a file");
        match mark {
            "-" => last?.old.push(rest.trim().into()),
            "+" => last?.new.push(rest.trim().into()),
            "=" => last?.reason = Some(rest.into()),
            _ => all.push(Mutant {
                file: mark.strip_suffix(':').context(line.to_owned())?.into(),
                tests: rest.split(' ').map(String::from).collect(),
                ..Mutant::default()
            }),
        }
    }
    Ok(all)
}

/// The part of the tree that a file belongs to: the folder below `src`.
fn folder(file: &str) -> String {
    let (package, rest) = file.split_once("/src/").unwrap_or((file, ""));
    match rest.split_once('/') {
        Some((folder, _)) => format!("{package}/src/{folder}"),
        None => format!("{package}/src"),
    }
}

impl Mutant {
    /// The file's text with the change.
    fn apply(&self, text: &str) -> Result<String> {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        let fits = |at: &usize| {
            let found = lines[*at..].iter().map(|line| line.trim());
            found.take(self.old.len()).eq(&self.old)
        };
        let [at] = (0..lines.len()).filter(fits).collect::<Vec<_>>()[..] else {
            bail!("{} does not have this once: {:?}", self.file, self.old);
        };
        lines.splice(at..at + self.old.len(), self.new.iter().cloned());
        Ok(lines.join("\n") + "\n")
    }

    /// The content of a file of a checkout with the change.
    fn applied(&self, root: &Path) -> Result<String> {
        self.apply(&fs::read_to_string(root.join(&self.file))?)
    }

    /// Makes the change in the copy, tests it, and reverts it. Also returns which test detected it.
    fn try_in(
        &self,
        project: &Project,
        copy: &Path,
        options: &MutantsOptions,
    ) -> Result<(Outcome, String)> {
        let Ok(changed) = self.applied(copy) else {
            return Ok((Outcome::Unfit, String::new()));
        };
        let path = copy.join(&self.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, changed)?;
        let limit = Some(options.limit);
        let tested = test(project, copy, &self.tests, options.case_limit, limit);
        fs::write(&path, original)?;
        let (status, said) = tested?;
        let outcome = match status.success() {
            false if said.contains("error: could not compile") => Outcome::Unfit,
            false => Outcome::Killed,
            true if self.reason.is_some() => Outcome::Explained,
            true => Outcome::Survived,
        };
        let failed = said.lines().find(|line| line.starts_with("FAILED "));
        let by = match (outcome, failed) {
            (Outcome::Killed, Some(failed)) => format!(": {failed}"),
            (Outcome::Killed, None) if status.code() == Some(TIMED_OUT) => {
                ": it took too long".into()
            }
            // No test failed, but they could not be run.
            (Outcome::Killed, None) => {
                bail!("no test could be run on a mutant of {}\n{said}", self.file)
            }
            _ => String::new(),
        };
        Ok((outcome, by))
    }

    fn line(&self, outcome: Outcome) -> String {
        format!("{outcome:?} {}: {}", self.file, self.old.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Mutant, folder, parse};

    #[test]
    fn a_list_is_read_and_applied() {
        let list = "# Pipes\na/src/b/c.rs: one two\n- x = 1;\n+ x = 2;\n= it is not used\n";
        let mutants = parse(list).unwrap();
        let expected = Mutant {
            file: "a/src/b/c.rs".into(),
            tests: vec!["one".into(), "two".into()],
            old: vec!["x = 1;".into()],
            new: vec!["x = 2;".into()],
            reason: Some("it is not used".into()),
        };
        assert_eq!(mutants, [expected]);
        let mutant = &mutants[0];
        assert_eq!(
            mutant.apply("{\n    x = 1;\n}\n").unwrap(),
            "{\nx = 2;\n}\n"
        );
        assert!(mutant.apply("x = 1;\nx = 1;\n").is_err());
        assert!(mutant.apply("\n").is_err());
        assert_eq!(folder(&mutant.file), "a/src/b");
        assert_eq!(folder("a/src/c.rs"), "a/src");
    }
}
