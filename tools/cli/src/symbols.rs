//! Names of functions in a Stile kernel with an ELF file.

use anyhow::{Context, Result, ensure};
use object::{File, Object, ObjectSymbol, SymbolKind};

use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::project::Project;
use crate::toolchain;

/// Addresses and names, ordered by address; empty for a kernel without a known ELF file.
#[derive(Default)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// The symbols of a kernel.
    pub fn of(project: &Project, kernel: &Kernel, arch: Arch) -> Self {
        let file = match kernel {
            Kernel::Stile => toolchain::kernel_place(project, arch, &[]),
            Kernel::File(path) if kernel.is_stile() => path.clone(),
            _ => return Self::default(),
        };
        let bytes = std::fs::read(file).unwrap_or_default();
        File::parse(&*bytes).map_or(Self::default(), |file| Self::of_file(&file))
    }

    fn of_file(file: &File) -> Self {
        let mut symbols: Vec<_> = file
            .symbols()
            .filter(|symbol| symbol.is_definition() && symbol.kind() != SymbolKind::Section)
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
            .filter(|(_, name)| !name.is_empty() && !name.starts_with(['$', '.']))
            .map(|(address, name)| (address, format!("{:#}", rustc_demangle::demangle(name))))
            .collect();
        symbols.sort();
        Self(symbols)
    }

    /// The name of the symbol that contains an address, or begins before it.
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0
            .get(after.checked_sub(1)?)
            .map(|(_, name)| name.clone())
    }

    fn address(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(_, known)| known == name);
        found.map(|(address, _)| *address)
    }
}

/// The table of function names with which a kernel prints its backtraces, and its address; None for
/// an ELF file without room for one (`__symbols_start` in Stile's kernel.ld).
pub fn table(elf: &[u8]) -> Result<Option<(u64, Vec<u8>)>> {
    let file = File::parse(elf)?;
    let symbols = Symbols::of_file(&file);
    let Some(place) = symbols.address("__symbols_start") else {
        return Ok(None);
    };
    let ends = ["__symbols_end", "__text_start", "__text_end"].map(|name| symbols.address(name));
    let [Some(end), Some(text), Some(text_end)] = ends else {
        return Ok(None);
    };
    let code = symbols
        .0
        .iter()
        .filter(|(address, name)| (text..text_end).contains(address) && !name.starts_with("__"));
    let table = symbols::pack(code.map(|(address, name)| (address - text, name.as_str())));
    let room = usize::try_from(end - place).context("the room for names")?;
    ensure!(
        table.len() <= room,
        "the names of the kernel's functions take {} bytes, and kernel.ld has room for {room}",
        table.len()
    );
    Ok(Some((place, table)))
}
