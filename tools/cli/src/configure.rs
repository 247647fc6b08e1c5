//! Configures unpacked Debian packages: their maintainer scripts run once, in a guest, and the
//! files they wrote are kept.
//!
//! Only scripts with effects that programs rely on are run: compiling to byte code for an hour, or
//! starting servers, would be useless.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::bench::jobs;
use crate::debian::{Debian, INFO};
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel_image::Kernel;
use crate::project::{Project, progress};
use crate::qemu::{Accel, Machine};

/// The script that runs in the guest.
const SCRIPT: &str = include_str!("configure.sh");

/// Packages that maintainer scripts need without declaring them, because busybox does not suffice.
const TOOLS: [&str; 6] = [
    "coreutils",
    "dash",
    "debconf",
    "dpkg",
    "findutils",
    "perl-base",
];

/// Commands for which a script is run: names of programs and files, PAM's services, PHP's modules,
/// GLib's settings and modules.
const RUN: [&str; 5] = [
    "update-alternatives",
    "pam-auth-update",
    "php_invoke",
    "glib-compile-schemas",
    "gio-querymodules",
];

/// Commands for which a script need not be run: byte code, services, and leftovers of an upgrade.
const NEEDLESS: [&str; 9] = [
    "py3compile",
    "deb-systemd-helper",
    "deb-systemd-invoke",
    "invoke-rc.d",
    "update-rc.d",
    "systemd-tmpfiles",
    "dpkg-maintscript-helper",
    "ldconfig",
    "dpkg --compare-versions",
];

/// Effects of scripts that are not run, and that may be missed.
const MISSED: [(&str, &str); 9] = [
    ("adduser", "adds a user"),
    ("useradd", "adds a user"),
    ("systemd-sysusers", "adds a user"),
    ("addgroup", "adds a group"),
    ("ssh-keygen", "makes the host's keys"),
    ("configure_version", "makes a cluster of databases"),
    ("mariadb-install-db", "makes the first databases"),
    ("update-ca-certificates", "gathers certificates"),
    ("ucf ", "writes settings"),
];

/// The maximum time for configuring.
const LIMIT: Duration = Duration::from_secs(1200);

/// The file in which the guest lists the packages whose scripts failed.
const FAILED: &str = "stile/not-configured";

/// Adds the files that the configuration of the packages in the tree `unpacked` writes to a guest's
/// tree, and reports the packages that were not configured.
pub fn install(
    project: &Project,
    debian: &Debian,
    arch: Arch,
    set: &Set,
    tree: &mut Initramfs,
) -> Result<()> {
    let scripts = scripts(set.unpacked)?;
    for (name, does) in scripts.iter().filter_map(Script::missed) {
        progress(&format!("not configured: {name} (its postinst {does})"));
    }
    let dropped: Vec<&str> = scripts
        .iter()
        .filter(|script| script.is_dropped())
        .map(|script| &*script.package)
        .collect();
    if !dropped.is_empty() {
        let names = dropped.join(", ");
        progress(&format!(
            "not configured: {names} (no such postinst is run)"
        ));
    }
    let run: Vec<&str> = scripts
        .iter()
        .filter(|script| script.runs())
        .map(|script| &*script.package)
        .collect();
    if run.is_empty() {
        return Ok(());
    }
    let name = format!("configured/{}", set.name);
    let place = debian.closure_place(&name);
    if !place.is_dir()
        && let Err(error) = configure(project, debian, arch, set, &run, &name)
    {
        progress(&format!("not configured: {}: {error:#}", run.join(", ")));
        return Ok(());
    }
    let failed = fs::read_to_string(place.join(FAILED)).unwrap_or_default();
    for line in failed.lines() {
        progress(&format!("not configured: {line}"));
    }
    tree.overlay(&place)
}

/// Packages that were unpacked together.
pub struct Set<'a> {
    /// The name of the set in the cache.
    pub name: &'a str,
    /// The packages that were requested.
    pub packages: &'a [&'a str],
    /// Their tree, with the packages that they depend on.
    pub unpacked: &'a Path,
}

/// A maintainer script.
struct Script {
    package: String,
    text: String,
}

impl Script {
    fn runs(&self) -> bool {
        RUN.iter().any(|word| self.text.contains(word))
    }

    /// Whether its script is dropped because its effects are unknown.
    fn is_dropped(&self) -> bool {
        let needless = || NEEDLESS.iter().any(|word| self.text.contains(word));
        !self.runs() && self.missed().is_none() && !needless()
    }

    /// The package, and the effect of its script that is missing.
    fn missed(&self) -> Option<(&str, &'static str)> {
        let missed = MISSED.iter().find(|(word, _)| self.text.contains(word));
        let (_, does) = missed.filter(|_| !self.runs())?;
        Some((&self.package, does))
    }
}

/// The scripts that configure the packages of a tree, without their comments.
fn scripts(unpacked: &Path) -> Result<Vec<Script>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(unpacked.join(INFO))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(package) = name.strip_suffix(".postinst") else {
            continue;
        };
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        scripts.push(Script {
            package: package.into(),
            text: code.collect::<Vec<_>>().join("\n"),
        });
    }
    scripts.sort_by(|one, other| one.package.cmp(&other.package));
    Ok(scripts)
}

/// Runs the scripts of these packages in a guest, and stores the files that they wrote under
/// `name`.
fn configure(
    project: &Project,
    debian: &Debian,
    arch: Arch,
    set: &Set,
    run: &[&str],
    name: &str,
) -> Result<()> {
    progress(&format!("configuring {}", run.join(", ")));
    let mut order = debian.order(set.packages)?;
    order.retain(|package| run.contains(&&**package));
    let mut tree = guest::tree(project, arch)?;
    tree.overlay(&debian.closure("tools", &TOOLS)?)?;
    tree.overlay(set.unpacked)?;
    tree.script("stile/configure", SCRIPT.as_bytes());
    let words = ["sh", "/stile/configure", debian.arch()];
    let job = guest::job(words.into_iter().chain(order.iter().map(String::as_str)));
    let kernel = Kernel::Stile;
    let machine = Machine {
        arch,
        kernel: &kernel,
        cpu: None,
        smp: 1,
        memory: "4G",
        icount: false,
        as_shipped: false,
        accel: Accel::Auto,
        debugger: None,
        disks: Vec::new(),
        shares: Vec::new(),
        append: Vec::new(),
        options: Vec::new(),
    };
    let mut session = guest::boot(project, &machine, &mut tree, &[job], None)?;
    let output = jobs::collect(&mut session, LIMIT)?;
    match output.end {
        Ok(end) if end == "exit status 0" => debian.keep(name, &output.stdout),
        Ok(end) => bail!("{end}\n{}", String::from_utf8_lossy(&output.stderr)),
        Err(failure) => bail!("{}", failure.reason),
    }
}

#[cfg(test)]
mod tests {
    use super::Script;

    fn script(text: &str) -> Script {
        Script {
            package: "p".into(),
            text: text.into(),
        }
    }

    #[test]
    fn only_scripts_that_matter_run_or_are_missed() {
        let names = script("update-alternatives --install /usr/bin/awk awk /usr/bin/gawk 10");
        assert!(names.runs() && names.missed().is_none());
        let user = script("adduser --system p");
        assert!(!user.runs());
        assert_eq!(user.missed(), Some(("p", "adds a user")));
        let code = script("py3compile -p p");
        assert!(!code.runs() && code.missed().is_none() && !code.is_dropped());
        let other = script("make-what-nobody-knows");
        assert!(other.is_dropped());
        assert!(!names.is_dropped() && !user.is_dropped());
        let settings = script("glib-compile-schemas /usr/share/glib-2.0/schemas || true");
        assert!(settings.runs());
    }
}
