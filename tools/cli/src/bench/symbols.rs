//! Names of functions, for the kernel that is built here.

use object::{Object, ObjectSymbol, SymbolKind};

use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::project::Project;
use crate::toolchain;

/// Addresses and names, by address; empty for a kernel of which no ELF file is known.
#[derive(Default)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// The symbols of a kernel.
    pub fn of(project: &Project, kernel: &Kernel, arch: Arch) -> Self {
        if *kernel != Kernel::Stile {
            return Self::default();
        }
        let bytes = std::fs::read(toolchain::kernel_place(project, arch)).unwrap_or_default();
        let Ok(file) = object::File::parse(&*bytes) else {
            return Self::default();
        };
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

    /// The name of what stands at an address or begins before it.
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        self.0
            .get(after.checked_sub(1)?)
            .map(|(_, name)| name.clone())
    }
}
