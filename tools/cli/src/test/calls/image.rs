//! The functions of a kernel's ELF file, with their names and code.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use gimli::{AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian};
use object::{File, Object, ObjectSection, ObjectSymbol, SymbolKind};

/// A function in the file.
pub struct Function {
    pub start: u64,
    pub end: u64,
    pub name: String,
}

/// A kernel's file and its functions.
pub struct Image<'a> {
    file: File<'a>,
    /// Ordered by address; those of assembly that are only labels are left out.
    pub functions: Vec<Function>,
}

impl<'a> Image<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let file = File::parse(bytes)?;
        let arguments = generic_arguments(&file)?;
        let mut functions = BTreeMap::new();
        for symbol in file.symbols() {
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                let start = symbol.address();
                let mut name = format!("{:#}", rustc_demangle::demangle(symbol.name()?));
                let arguments = arguments.get(&start);
                name.extend(
                    arguments
                        .filter(|_| !name.ends_with('>'))
                        .map(String::as_str),
                );
                let end = start + symbol.size();
                functions.insert(start, Function { start, end, name });
            }
        }
        ensure!(
            !functions.is_empty(),
            "the kernel's file names no functions"
        );
        let functions = functions.into_values().collect();
        Ok(Self { file, functions })
    }

    /// The index of the function that contains an address.
    pub fn at(&self, address: u64) -> Option<usize> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let found = after.checked_sub(1)?;
        (address < self.functions[found].end).then_some(found)
    }

    /// The code of a function.
    pub fn code(&self, function: &Function) -> Result<&'a [u8]> {
        let (start, len) = (function.start, function.end - function.start);
        for section in self.file.sections() {
            if let Some(code) = section.data_range(start, len)? {
                return Ok(code);
            }
        }
        bail!("the kernel's file has no code of {}", function.name)
    }
}

type Data<'a> = EndianSlice<'a, LittleEndian>;

/// The generic arguments of functions by address, which symbols lack: `<A, B>`, from the names in
/// the debugging information.
fn generic_arguments(file: &File) -> Result<BTreeMap<u64, String>> {
    let section = |id: gimli::SectionId| -> Result<Data> {
        let section = file.section_by_name(id.name());
        let data = section.map_or(Ok(&[][..]), |section| section.data())?;
        Ok(EndianSlice::new(data, LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(section)?;
    let mut found = BTreeMap::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let Some(start) = entry.attr_value(gimli::DW_AT_low_pc) else {
                continue;
            };
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let Some(start) = dwarf.attr_address(&unit, start)? else {
                continue;
            };
            let name = name(&dwarf, &unit, entry)?;
            if let Some(at) = name.find('<').filter(|&at| at > 0) {
                found.insert(start, name[at..].to_owned());
            }
        }
    }
    Ok(found)
}

/// The name of a function in the debugging information, which may be that of its other instances.
fn name(
    dwarf: &gimli::Dwarf<Data>,
    unit: &gimli::Unit<Data>,
    entry: &DebuggingInformationEntry<Data>,
) -> Result<String> {
    if let Some(name) = entry.attr_value(gimli::DW_AT_name) {
        return Ok(dwarf
            .attr_string(unit, name)?
            .to_string_lossy()
            .into_owned());
    }
    match entry.attr_value(gimli::DW_AT_abstract_origin) {
        Some(AttributeValue::UnitRef(origin)) => name(dwarf, unit, &unit.entry(origin)?),
        _ => Ok(String::new()),
    }
}
