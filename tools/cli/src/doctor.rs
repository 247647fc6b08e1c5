//! `stile doctor`: what this machine has, and what is missing.

use std::process::Command;

use anyhow::Result;

use crate::arch::Arch;
use crate::debian;
use crate::project::{Project, find_program, output};
use crate::qemu::Qemu;

/// Prints one line for each thing; the status is 0 where nothing is missing.
pub fn doctor(project: &Project) -> Result<u8> {
    let mut missing = 0;
    let mut line = |name: &str, found: Result<String, String>| match found {
        Ok(what) => println!("ok       {name}: {what}"),
        Err(what) => {
            missing += 1;
            println!("missing  {name}: {what}");
        }
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
    let mirror = debian::mirror();
    for tool in ["apt-get", "dpkg-deb"] {
        let path = find_program(tool).map(|path| path.display().to_string());
        line(
            tool,
            path.ok_or("Debian's packages cannot be fetched".into()),
        );
    }
    line("Debian mirror", mirror.map_err(|error| error.to_string()));
    for arch in [Arch::Arm64, Arch::Riscv64] {
        let found = match Qemu::of_host(arch) {
            Some(qemu) => Ok(format!("{} of this machine", qemu.version)),
            None => match Qemu::of_debian_cached(project, arch) {
                Some(qemu) => Ok(format!("{} of Debian, in the cache", qemu.version)),
                None => Err(
                    "10 or newer is not installed; `stile run` fetches Debian's into the cache"
                        .into(),
                ),
            },
        };
        line(arch.qemu(), found);
    }
    println!("cache    {}", project.cache.display());
    Ok(u8::from(missing > 0))
}
