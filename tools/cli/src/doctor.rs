//! `stile doctor`: which requirements this machine meets, and which it does not.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::arch::Arch;
use crate::debian;
use crate::project::{Project, find_program, output};
use crate::qemu::Qemu;

/// Prints one line per requirement; the status is 0 if nothing is missing that only the user can
/// install.
pub fn doctor(project: &Project) -> Result<u8> {
    let mut missing = 0;
    let mut line = |name: &str, found: Result<String, String>| {
        let ok = found.is_ok();
        match found {
            Ok(what) => show!("ok       {name}: {what}"),
            Err(what) => show!("missing  {name}: {what}"),
        }
        missing += u32::from(!ok);
        ok
    };
    let version = |tool: &str| {
        let said = output(Command::new(tool).arg("--version"), "asking for a version").ok()?;
        Some(said.lines().next()?.to_owned())
    };
    line(
        "cargo",
        version("cargo").ok_or("install Rust 1.95 or newer with rustup".into()),
    );
    line(
        "rustup",
        version("rustup").ok_or("targets that the toolchain lacks cannot be added".into()),
    );
    let linker = find_program("cc").map(|path| path.display().to_string());
    line(
        "cc",
        linker.ok_or("install a C compiler: it links this command".into()),
    );
    let mut fetches = true;
    for tool in ["apt-get", "dpkg-deb"] {
        let path = find_program(tool).map(|path| path.display().to_string());
        fetches &= line(
            tool,
            path.ok_or("Debian's packages cannot be fetched".into()),
        );
    }
    let keys = Path::new(debian::KEYRING);
    fetches &= line(
        "Debian keys",
        match keys.exists() {
            true => Ok(keys.display().to_string()),
            false => Err("install debian-archive-keyring".into()),
        },
    );
    let mirror = debian::mirror().and_then(|mirror| match project.offline {
        true => Ok(format!("{mirror}, not asked (--offline)")),
        false => debian::probe(&mirror).map(|()| mirror),
    });
    fetches &= line("Debian mirror", mirror.map_err(|error| error.to_string()));
    for arch in [Arch::Arm64, Arch::Riscv64] {
        let found = match Qemu::of_host(arch) {
            Some(qemu) => Ok(format!("{} of this machine", qemu.version)),
            None => match Qemu::of_debian_cached(project, arch) {
                Some(qemu) => Ok(format!("{} of Debian, in the cache", qemu.version)),
                None if fetches => Ok("Debian's is fetched when it is first needed".into()),
                None => Err("install 10 or newer, or what it takes to fetch Debian's".into()),
            },
        };
        line(arch.qemu(), found);
    }
    show!("cache    {}", project.cache.display());
    Ok(u8::from(missing > 0))
}
