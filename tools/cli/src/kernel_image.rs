//! The kernel that a guest boots: Stile built from this checkout, a stock Linux, or a file.

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::arch::Arch;
use crate::packages;
use crate::project::{Project, write_if_changed};
use crate::symbols;
use crate::toolchain;

/// The kernel that a guest boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The kernel of this checkout.
    Stile,
    /// The kernel of this checkout with its unit tests, already built: the flat image.
    Selftest(PathBuf),
    /// Debian's stock kernel of this version, such as `6.12`.
    Linux(String),
    /// A file with Linux's boot protocol. It gets Stile's devices if it is an ELF file, as only
    /// Stile's kernels are, otherwise Linux's.
    File(PathBuf),
}

impl Kernel {
    /// The kernel that `--on` names.
    pub fn from_option(text: &str) -> Self {
        match text.strip_prefix("linux-") {
            _ if text == "stile" => Self::Stile,
            Some(version) => Self::Linux(version.to_owned()),
            None => Self::File(text.into()),
        }
    }

    /// Whether the kernel is a Stile, which has its own devices and parameters.
    pub fn is_stile(&self) -> bool {
        match self {
            Self::Stile | Self::Selftest(_) => true,
            Self::Linux(_) => false,
            Self::File(path) => is_elf(path),
        }
    }

    /// Builds or fetches the kernel; returns a file for QEMU's `-kernel`.
    pub fn image(&self, project: &Project, arch: Arch) -> Result<PathBuf> {
        match self {
            Self::Stile => flat_image(&toolchain::kernel(project, arch, &[])?),
            Self::Linux(version) => packages::linux(project, arch, version),
            Self::Selftest(path) => Ok(path.clone()),
            Self::File(path) => image_of_file(project, arch, path),
        }
    }

    /// Its banner as in `/proc/version`, with its builder and compiler; None if the image is
    /// compressed.
    pub fn banner(&self, project: &Project, arch: Arch) -> Result<Option<String>> {
        let image = self.image(project, arch)?;
        let bytes = fs::read(&image).with_context(|| image.display().to_string())?;
        Ok(banner(&bytes))
    }

    /// The file that [`Kernel::image`] creates.
    pub fn planned_image(&self, project: &Project, arch: Arch) -> PathBuf {
        match self {
            Self::Stile => toolchain::kernel_place(project, arch, &[]).with_extension("image"),
            Self::Linux(version) => packages::linux_place(project, arch, version),
            Self::Selftest(path) | Self::File(path) => path.clone(),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Stile => formatter.write_str("stile"),
            Self::Linux(version) => write!(formatter, "linux-{version}"),
            Self::Selftest(path) | Self::File(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// Whether a file is an ELF file; false if it cannot be read.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// A file for QEMU: the file itself, or the flat image of an ELF file whose first bytes in memory
/// are Linux's header, as in Stile's kernels.
fn image_of_file(project: &Project, arch: Arch, path: &Path) -> Result<PathBuf> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    if !bytes.starts_with(b"\x7fELF") {
        check_image(arch, &bytes).with_context(|| path.display().to_string())?;
        return Ok(path.to_owned());
    }
    let flat = flatten(&bytes).with_context(|| path.display().to_string())?;
    if header_arch(&flat).is_none() {
        return Ok(path.to_owned());
    }
    let mut hasher = DefaultHasher::new();
    flat.hash(&mut hasher);
    let folder = project.cache.join("images");
    fs::create_dir_all(&folder)?;
    let place = folder.join(format!("{:016x}", hasher.finish()));
    fs::write(&place, flat)?;
    Ok(place)
}

/// The architecture of an image according to its header of Linux's boot protocol: the magic numbers
/// of arm64 and of RISC-V are at the same offset (Documentation/arch/*/boot*.rst).
fn header_arch(image: &[u8]) -> Option<Arch> {
    match image.get(0x38..0x3c)? {
        b"ARM\x64" => Some(Arch::Arm64),
        b"RSC\x05" => Some(Arch::Riscv64),
        _ => None,
    }
}

/// Rejects files that QEMU would run although they are not kernels. QEMU unpacks images that are
/// compressed with gzip or as an EFI program.
fn check_image(arch: Arch, image: &[u8]) -> Result<()> {
    let packed = image.starts_with(b"\x1f\x8b") || image.get(4..8) == Some(b"zimg");
    match header_arch(image) {
        Some(found) => ensure!(
            found == arch,
            "a kernel for {}, not for {}",
            found.debian(),
            arch.debian()
        ),
        None => ensure!(packed, "not a kernel"),
    }
    Ok(())
}

/// Linux's banner in an image: its name, its release, which begins with a digit, and the rest of
/// the line.
fn banner(image: &[u8]) -> Option<String> {
    const START: &[u8] = b"Linux version ";
    let is_banner = |bytes: &&[u8]| {
        bytes.starts_with(START) && bytes.get(START.len()).is_some_and(u8::is_ascii_digit)
    };
    let found = (0..image.len()).map(|at| &image[at..]).find(is_banner)?;
    let line = found.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// Writes a kernel's loadable segments, as they are laid out in memory, to a file next to the ELF
/// file, with the names of its functions if there is room for them. QEMU passes the device tree and
/// the initramfs only to such an image with Linux's header.
pub fn flat_image(elf: &Path) -> Result<PathBuf> {
    let bytes = fs::read(elf).with_context(|| elf.display().to_string())?;
    let image = flatten(&bytes).with_context(|| elf.display().to_string())?;
    let path = elf.with_extension("image");
    write_if_changed(&path, &image)?;
    Ok(path)
}

fn flatten(bytes: &[u8]) -> Result<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let loaded = |segment: &&object::elf::ProgramHeader64<Endianness>| {
        segment.p_type(endian) == PT_LOAD && segment.p_filesz(endian) > 0
    };
    let segments: Vec<_> = header
        .program_headers(endian, bytes)?
        .iter()
        .filter(loaded)
        .collect();
    let first = segments
        .iter()
        .min_by_key(|segment| segment.p_paddr(endian))
        .context("nothing to load")?;
    let base = first.p_paddr(endian);
    let mut image = Vec::new();
    for segment in &segments {
        let data = segment
            .data(endian, bytes)
            .ok()
            .context("a segment outside the file")?;
        let at = usize::try_from(segment.p_paddr(endian) - base)?;
        if image.len() < at + data.len() {
            image.resize(at + data.len(), 0);
        }
        image[at..at + data.len()].copy_from_slice(data);
    }
    if let Some((address, names)) = symbols::table(bytes)? {
        let at = usize::try_from(address - first.p_vaddr(endian))?;
        let room = image.get_mut(at..at + names.len());
        room.context("names outside the image")?
            .copy_from_slice(&names);
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::{banner, check_image};
    use crate::arch::Arch;

    #[test]
    fn what_is_no_kernel_of_the_architecture_is_refused() {
        let mut image = [0; 0x40];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert!(check_image(Arch::Arm64, &image).is_ok());
        let other = check_image(Arch::Riscv64, &image).unwrap_err();
        assert_eq!(other.to_string(), "a kernel for arm64, not for riscv64");
        assert!(check_image(Arch::Arm64, b"root:x:0:0").is_err());
        assert!(check_image(Arch::Arm64, b"").is_err());
        assert!(check_image(Arch::Arm64, b"\x1f\x8b\x08").is_ok());
        assert!(check_image(Arch::Arm64, b"MZ\0\0zimg").is_ok());
    }

    #[test]
    fn the_banner_is_found_and_not_its_template() {
        let image = b"\0Linux version %s (%s)\n\0Linux version 6.12.1 (me) (gcc 14) #1 SMP\n\0";
        assert_eq!(
            banner(image).as_deref(),
            Some("Linux version 6.12.1 (me) (gcc 14) #1 SMP")
        );
        assert_eq!(banner(b"Linux version %s"), None);
    }
}
