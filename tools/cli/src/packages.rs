//! The Debian packages that provide what a guest needs.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::arch::{Arch, COMPAT};
use crate::configure;
use crate::debian::{Debian, SOURCES};
use crate::initramfs::Initramfs;
use crate::project::{Project, progress};

/// The release from which programs and current kernels are taken.
pub const SUITE: &str = "trixie";

/// Dependencies that packages do not declare: the locale `C.UTF-8`.
const ESSENTIAL: &str = "libc-bin";

/// Programs in packages of another name, and those packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("ab", "apache2-utils"),
    ("ar", "binutils"),
    ("aplay", "alsa-utils"),
    ("bwrap", "bubblewrap"),
    ("dig", "bind9-dnsutils"),
    ("convert", "imagemagick"),
    ("dot", "graphviz"),
    ("erl", "erlang-base"),
    ("ffprobe", "ffmpeg"),
    ("getfacl", "acl"),
    ("getfattr", "attr"),
    ("go", "golang-go"),
    ("gs", "ghostscript"),
    ("gsettings", "libglib2.0-bin"),
    ("host", "bind9-host"),
    ("ifconfig", "net-tools"),
    ("ip", "iproute2"),
    ("jar", "default-jdk-headless"),
    ("java", "default-jre-headless"),
    ("javac", "default-jdk-headless"),
    ("keyctl", "keyutils"),
    ("ld", "binutils"),
    ("mariadbd", "mariadb-server"),
    ("netstat", "net-tools"),
    ("node", "nodejs"),
    ("nslookup", "bind9-dnsutils"),
    ("objdump", "binutils"),
    ("ping", "iputils-ping"),
    ("pip", "python3-pip"),
    ("pip3", "python3-pip"),
    ("pgrep", "procps"),
    ("pkill", "procps"),
    ("ps", "procps"),
    ("psql", "postgresql-client"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("readelf", "binutils"),
    ("mariadb", "mariadb-client"),
    ("python", "python-is-python3"),
    ("redis-cli", "redis-tools"),
    ("scp", "openssh-client"),
    ("setpriv", "util-linux"),
    ("ss", "iproute2"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("strings", "binutils"),
    ("udevadm", "udev"),
    ("unshare", "util-linux"),
    ("xz", "xz-utils"),
];

/// The message about a program that the guest does not have: it names the package with the program,
/// if the table or the cached package lists know it.
pub fn missing(project: &Project, arch: Arch, program: &str) -> String {
    let table = PROGRAMS.iter().find(|(name, _)| *name == program);
    let (package, certain) = match table {
        Some((_, package)) => (Some(*package), true),
        None if is_package(project, arch, program) => (Some(program), false),
        None => (None, false),
    };
    match package {
        Some(package) => format!(
            "{program}: not found in the guest; Debian's package {package} {} it: --package {package}",
            if certain { "has" } else { "may have" }
        ),
        None => format!(
            "{program}: not found in the guest, nor a Debian package of that name: --package adds one, --copy a file"
        ),
    }
}

/// Whether the package lists, which are not downloaded for this, have a package of this name.
fn is_package(project: &Project, arch: Arch, name: &str) -> bool {
    let debian = Debian::new(project, SUITE, arch.debian());
    check(name).is_ok()
        && debian.has_lists()
        && matches!(debian.field(name, "Package"), Ok(Some(_)))
}

/// lmbench's programs, which Debian keeps outside `PATH`.
pub const LMBENCH_FOLDER: &str = "usr/lib/lmbench/bin";

/// Packages of libraries whose names cannot be derived from the library's.
const LIBRARIES: [(&str, &str); 11] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("libdl.so.2", "libc6"),
    ("librt.so.1", "libc6"),
    ("libresolv.so.2", "libc6"),
    ("ld-linux-aarch64.so.1", "libc6"),
    ("ld-linux-armhf.so.3", "libc6"),
    ("ld-linux-riscv64-lp64d.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("ld-musl-aarch64.so.1", "musl"),
];

/// Whether a bare name is one of lmbench's programs.
pub fn is_lmbench(name: &str) -> bool {
    name == "mhz"
        || name == "lmdd"
        || name == "stream"
        || name.starts_with("lat_")
        || name.starts_with("bw_")
}

/// The folder with lmbench's programs. It is not free software, so this is called only if the user
/// has asked for it.
pub fn lmbench(project: &Project, arch: Arch) -> Result<PathBuf> {
    let debian = Debian::new(project, SUITE, arch.debian());
    if !debian.cached("lmbench") {
        progress("lmbench is in Debian's non-free section: downloaded because it was named");
    }
    Ok(debian.package("lmbench")?.join(LMBENCH_FOLDER))
}

/// Adds these packages, as the user names them, and all their dependencies to a guest's tree, with
/// the files that their configuration writes. If packages of two architectures have the same file,
/// that of the machine's own architecture is used.
pub fn install(
    project: &Project,
    arch: Arch,
    names: &[String],
    tree: &mut Initramfs,
) -> Result<()> {
    let (mut own, mut compat) = (Vec::new(), Vec::new());
    for name in names {
        let (name, of) = name.split_once(':').unwrap_or((name, arch.debian()));
        check(name)?;
        match of {
            of if of == arch.debian() => own.push(name),
            COMPAT if arch == Arch::Arm64 => compat.push(name),
            _ => bail!("packages of {of} do not run on {}", arch.debian()),
        }
    }
    for (debian, names) in [(COMPAT, compat), (arch.debian(), own)] {
        if !names.is_empty() {
            let debian = Debian::new(project, SUITE, debian);
            install_of(project, arch, &debian, &names, tree)?;
        }
    }
    Ok(())
}

/// Installs packages of one architecture.
fn install_of(
    project: &Project,
    arch: Arch,
    debian: &Debian,
    names: &[&str],
    tree: &mut Initramfs,
) -> Result<()> {
    let all: Vec<&str> = names.iter().copied().chain([ESSENTIAL]).collect();
    let name = names.join("_");
    let unpacked = debian.closure(&format!("unpacked/{name}"), &all)?;
    tree.overlay(&unpacked)?;
    let set = configure::Set {
        name: &name,
        packages: &all,
        unpacked: &unpacked,
    };
    configure::install(project, debian, arch, &set, tree)
}

/// The source of a package, as its authors released it.
pub fn source(project: &Project, name: &str) -> Result<PathBuf> {
    check(name)?;
    Debian::new(project, SUITE, SOURCES).source(name)
}

/// Whether the user's word can be the name of a package.
fn check(name: &str) -> Result<()> {
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    match !name.is_empty() && name.chars().all(legal) {
        true => Ok(()),
        false => bail!("'{name}' is no package's name"),
    }
}

/// The small C compiler.
pub fn tcc(project: &Project, arch: Arch) -> Result<PathBuf> {
    let package = Debian::new(project, SUITE, arch.debian()).package("tcc")?;
    first_existing(&package, &["usr/bin/tcc"])
}

/// The static busybox.
pub fn busybox(project: &Project, arch: Arch) -> Result<PathBuf> {
    let package = Debian::new(project, SUITE, arch.debian()).package("busybox-static")?;
    first_existing(&package, &["usr/bin/busybox", "bin/busybox"])
}

/// The folder of the package that has the library of this name.
pub fn library(project: &Project, arch: &str, soname: &str) -> Result<PathBuf> {
    let debian = Debian::new(project, SUITE, arch);
    if let Some((_, package)) = LIBRARIES.iter().find(|(name, _)| *name == soname) {
        return debian.package(package);
    }
    for candidate in candidates(soname) {
        if debian.cached(&candidate) || debian.field(&candidate, "Package")?.is_some() {
            return debian.package(&candidate);
        }
    }
    bail!("no Debian package is known to have {soname}; give the library by --copy")
}

/// Package names that Debian's policy derives from a library's name: `libtirpc.so.3` is in
/// `libtirpc3t64` or `libtirpc3`.
fn candidates(soname: &str) -> Vec<String> {
    let Some((name, version)) = soname.split_once(".so.") else {
        return Vec::new();
    };
    let dash = if name.ends_with(|last: char| last.is_ascii_digit()) {
        "-"
    } else {
        ""
    };
    let name = name.to_lowercase().replace('_', "-");
    vec![
        format!("{name}{dash}{version}t64"),
        format!("{name}{dash}{version}"),
    ]
}

/// The folder in which a stock kernel is kept.
pub fn linux_place(project: &Project, arch: Arch, version: &str) -> PathBuf {
    project
        .cache
        .join("linux")
        .join(format!("{version}-{}", arch.debian()))
}

/// Whether Debian has a kernel of this version for the architecture: RISC-V was added in trixie.
pub fn has_linux(arch: Arch, version: &str) -> bool {
    !(arch == Arch::Riscv64 && version == "6.1")
}

/// A stock Debian kernel of this version, such as `6.12`, for QEMU.
pub fn linux(project: &Project, arch: Arch, version: &str) -> Result<PathBuf> {
    let place = linux_place(project, arch, version);
    if !place.is_file() {
        let image = kernel_file(&linux_package(project, arch, version)?.join("boot"))?;
        std::fs::create_dir_all(project.cache.join("linux"))?;
        std::fs::hard_link(image, &place)?;
    }
    Ok(place)
}

/// The paths of these modules, given without suffix, of such a kernel; built-in ones are left out.
pub fn linux_modules(
    project: &Project,
    arch: Arch,
    version: &str,
    names: &[&str],
) -> Result<Vec<PathBuf>> {
    let package = linux_package(project, arch, version)?;
    let releases = ["usr/lib/modules", "lib/modules"].map(|folder| package.join(folder));
    let releases = releases
        .iter()
        .find_map(|folder| std::fs::read_dir(folder).ok());
    let Some(release) = releases.and_then(|mut entries| entries.next()) else {
        bail!("{} has no modules", package.display());
    };
    let release = release?.path();
    let built_in = std::fs::read_to_string(release.join("modules.builtin"))?;
    let is_built_in = |name: &&&str| {
        let line = format!("kernel/{name}.ko");
        built_in.lines().any(|module| module == line)
    };
    let kernel = release.join("kernel");
    let file = |name: &&str| {
        let endings = ["ko", "ko.xz"].map(|ending| format!("{name}.{ending}"));
        first_existing(&kernel, &endings.each_ref().map(String::as_str))
    };
    names
        .iter()
        .filter(|name| !is_built_in(name))
        .map(file)
        .collect()
}

/// The package of such a kernel.
fn linux_package(project: &Project, arch: Arch, version: &str) -> Result<PathBuf> {
    let suite = match version {
        "6.1" => "bookworm",
        "6.12" => SUITE,
        _ => bail!("no Debian release is known to have Linux {version}; there are 6.1 and 6.12"),
    };
    let debian = Debian::new(project, suite, arch.debian());
    if let Some(package) = debian.cached_beginning(&format!("linux-image-{version}.")) {
        return Ok(package);
    }
    let newest = debian.field(&format!("linux-image-{}", arch.debian()), "Depends")?;
    let Some(package) = newest
        .as_deref()
        .and_then(|depends| depends.split([' ', ',']).next())
    else {
        bail!("Debian {suite} has no Linux for {}", arch.debian());
    };
    progress(&format!("Linux {version} is {package}"));
    debian.package(package)
}

fn kernel_file(boot: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(boot)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinu"))
        {
            return Ok(path);
        }
    }
    bail!("no kernel in {}", boot.display())
}

fn first_existing(folder: &Path, names: &[&str]) -> Result<PathBuf> {
    match names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
    {
        Some(path) => Ok(path),
        None => bail!("{} has no {}", folder.display(), names[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn package_names_follow_debians_policy() {
        assert_eq!(candidates("libtirpc.so.3"), ["libtirpc3t64", "libtirpc3"]);
        assert_eq!(candidates("libfoo2.so.0"), ["libfoo2-0t64", "libfoo2-0"]);
        assert_eq!(
            candidates("libgssapi_krb5.so.2"),
            ["libgssapi-krb5-2t64", "libgssapi-krb5-2"]
        );
        assert!(candidates("ld-linux.so").is_empty());
    }
}
