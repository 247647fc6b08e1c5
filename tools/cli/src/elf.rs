//! Reads a program file's header: its architecture, its interpreter, the libraries it needs.

use std::path::Path;

use anyhow::{Context, Result, bail};
use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use crate::arch::{Arch, COMPAT};

/// An ELF program for an architecture that Stile runs on.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The architecture of the machine that runs it.
    pub arch: Arch,
    /// Whether the program is for 32-bit Arm, which arm64 machines run, too.
    pub compat: bool,
    /// The path of its dynamic linker.
    pub interpreter: Option<String>,
    /// The names of the libraries that it is linked to.
    pub libraries: Vec<String>,
}

/// The kind of a file, with regard to running it.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program.
    Elf(Program),
    /// A script, with the path of its interpreter.
    Script(String),
}

/// Reads the beginning of a file and returns its kind; the error says why it cannot be run.
pub fn inspect(path: &Path) -> Result<Kind> {
    let bytes = std::fs::read(path)?;
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next().context("an empty #! line")?;
        return Ok(Kind::Script(interpreter.to_owned()));
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        bail!("neither a Linux program nor a script");
    }
    parse(&bytes).map(Kind::Elf)
}

impl Program {
    /// Debian's name of the architecture that the program was built for.
    pub fn debian(&self) -> &'static str {
        if self.compat {
            COMPAT
        } else {
            self.arch.debian()
        }
    }

    /// The folder below `/usr/lib` with its libraries.
    pub fn library_folder(&self) -> &'static str {
        if self.compat {
            "arm-linux-gnueabihf"
        } else {
            self.arch.library_folder()
        }
    }
}

/// Reads an ELF file.
pub fn parse(bytes: &[u8]) -> Result<Program> {
    match FileHeader32::<Endianness>::parse(bytes) {
        Ok(header) => read(header, bytes),
        Err(_) => read(
            FileHeader64::<Endianness>::parse(bytes).context("a damaged ELF file")?,
            bytes,
        ),
    }
}

fn read<Header>(header: &Header, bytes: &[u8]) -> Result<Program>
where
    Header: FileHeader<Endian = Endianness>,
{
    let endian = header.endian()?;
    let wide = header.is_class_64();
    let arch = match header.e_machine(endian) {
        elf::EM_AARCH64 if wide => Arch::Arm64,
        elf::EM_ARM if !wide => Arch::Arm64,
        elf::EM_RISCV if wide => Arch::Riscv64,
        elf::EM_X86_64 => bail!("a program for x86-64; Stile runs arm64 and riscv64"),
        other => bail!(
            "a {}-bit program for ELF machine {other}; Stile runs arm64, 32-bit Arm and riscv64",
            if wide { 64 } else { 32 }
        ),
    };
    let segments = header.program_headers(endian, bytes)?;
    let mut program = Program {
        arch,
        compat: !wide,
        interpreter: None,
        libraries: Vec::new(),
    };
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(endian, bytes)? {
            program.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
        }
        let Some(dynamic) = segment.dynamic(endian, bytes)? else {
            continue;
        };
        let value = |tag: elf::DynamicTag| {
            let entry = dynamic.iter().find(|entry| entry.tag(endian) == tag);
            entry.map(|entry| entry.d_val(endian).into())
        };
        let (Some(table), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
            continue;
        };
        let strings = segments.iter().find_map(|segment| {
            segment
                .data_range(endian, bytes, table, size)
                .ok()
                .flatten()
        });
        let strings = strings.context("a dynamic section without its strings")?;
        for entry in dynamic
            .iter()
            .filter(|entry| entry.tag(endian) == elf::DT_NEEDED)
        {
            let name = strings
                .get(entry.d_val(endian).into() as usize..)
                .unwrap_or_default();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            program
                .libraries
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(program)
}

/// The applets of a busybox, from the table of names in its binary: sorted names, each ended by a
/// NUL, `[` first.
pub fn busybox_applets(bytes: &[u8]) -> Vec<String> {
    let start = b"[\0[[\0";
    let Some(at) = bytes
        .windows(start.len())
        .position(|window| window == start)
    else {
        return Vec::new();
    };
    let is_name = |name: &&[u8]| {
        let allowed = |&byte: &u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'%';
        !name.is_empty() && name.len() < 32 && name.iter().all(allowed)
    };
    let names = bytes[at..].split(|&byte| byte == 0).take_while(is_name);
    let mut applets: Vec<String> = Vec::new();
    for name in names {
        let name = String::from_utf8_lossy(name).into_owned();
        if applets.last().is_some_and(|last| *last >= name) {
            break;
        }
        applets.push(name);
    }
    applets
}

#[cfg(test)]
mod tests {
    use super::busybox_applets;

    #[test]
    fn applets_end_where_the_names_do() {
        let bytes = b"\xc0\xae [\0[[\0acpid\0wc\0zcat\0\0more\0";
        assert_eq!(busybox_applets(bytes), ["[", "[[", "acpid", "wc", "zcat"]);
        let bytes = b"[\0[[\0acpid\0%s: usage\0";
        assert_eq!(busybox_applets(bytes), ["[", "[[", "acpid"]);
        assert!(busybox_applets(b"no applets").is_empty());
    }
}
