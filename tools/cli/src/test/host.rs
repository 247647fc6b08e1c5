//! The tests that run on the host: those of the mechanism crates and of this command.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::Report;
use crate::options::TestOptions;
use crate::project::Project;

/// The names of the tests of the kernel on the host, and of their package.
const KERNEL: &str = "kernel";
const HOSTED: &str = "hosted";

/// Runs `cargo test` for every crate whose name was requested, then the models of `loom`, which try
/// every interleaving of the lock-free parts.
pub fn test(project: &Project, options: &TestOptions, report: &mut Report) -> Result<()> {
    let mut crates = BTreeSet::from(["cli", KERNEL].map(str::to_owned));
    for entry in fs::read_dir(project.root.join("crates"))? {
        crates.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    let models = report.wants("host/loom").then(|| models(project, &crates));
    crates.retain(|name| report.wants(&format!("host/{name}")));
    if !crates.is_empty() {
        let mut cargo = project.cargo(&["test", "--no-fail-fast"]);
        for name in &crates {
            let package = if name == KERNEL { HOSTED } else { name };
            cargo.args(["--package", package]);
        }
        if options.long {
            cargo.args(["--", "--include-ignored"]);
        }
        run(cargo, report)?;
    }
    if let Some(models) = models {
        let mut cargo = project.cargo_in("loom", &["test", "--no-fail-fast"]);
        cargo.env("RUSTFLAGS", "--cfg loom");
        for (package, test) in models? {
            cargo.args(["--package", &package, "--test", &test]);
        }
        run(cargo, report)?;
    }
    Ok(())
}

/// The tests that use `loom`, each with its crate. The crate's other tests are useless in a build
/// with it.
fn models(project: &Project, crates: &BTreeSet<String>) -> Result<Vec<(String, String)>> {
    let mut models = Vec::new();
    for package in crates {
        let Ok(tests) = fs::read_dir(project.root.join("crates").join(package).join("tests"))
        else {
            continue;
        };
        for test in tests {
            let path = test?.path();
            // Folders contain code that several tests share.
            if path.is_file() && fs::read_to_string(&path)?.contains("loom::") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                models.push((package.clone(), name.into_owned()));
            }
        }
    }
    Ok(models)
}

fn run(mut cargo: Command, report: &mut Report) -> Result<()> {
    let output = cargo.output().context("cargo cannot be run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut failures = 0;
    for line in text.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            report.passed(number_before(result, " passed"));
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            failures += 1;
            report.failed(&format!("host/{name}"), &explanation(&text, name));
        }
    }
    if !output.status.success() && failures == 0 {
        report.failed("host", &String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn number_before(text: &str, what: &str) -> usize {
    let before = text.split(what).next().unwrap_or_default();
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The output of the failed test.
fn explanation(text: &str, name: &str) -> String {
    let start = format!("---- {name} stdout ----");
    let lines = text.lines().skip_while(|line| *line != start).skip(1);
    lines
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::number_before;

    #[test]
    fn results_of_cargo_are_read() {
        assert_eq!(
            number_before("ok. 17 passed; 0 failed; 0 ignored", " passed"),
            17
        );
        assert_eq!(number_before("nothing", " passed"), 0);
    }
}
