//! Programs as ELF files: checked, and laid out in a new address space.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use elf::abi::{
    ET_DYN, ET_EXEC, PF_R, PF_W, PF_X, PT_GNU_PROPERTY, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_PHDR,
};
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

use super::elf_property;
use super::sched::cond_resched_killable;
use crate::arch::{self, ABIS, Abi};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::mm::vma::{Flags, Label, PageSource, Rights, Source};
use crate::mm::{AddressSpace, MapRequest, PAGE_SIZE, Place, Removed, page_down, page_up};

/// The size of the file header, for 64 and for 32 bits.
const HEADER: usize = 64;
const COMPAT_HEADER: usize = 52;
/// The maximum size of all program headers.
const MOST_HEADERS: usize = 65536;
/// The longest path of an interpreter, with its zero.
const LONGEST_PATH: usize = 4096;

/// A program that can be mapped.
pub struct Program {
    file: Arc<File>,
    abi: &'static Abi,
    header: FileHeader<LittleEndian>,
    segments: Vec<ProgramHeader>,
}

/// The addresses at which a program was mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// The load bias, which was added to the file's addresses.
    pub base: usize,
    /// Its first instruction.
    pub entry: usize,
    /// Its program headers.
    pub headers: usize,
    /// The number of program headers.
    pub header_count: usize,
    /// The end of its data.
    pub end: usize,
}

impl Program {
    /// Reads the headers of `file`.
    ///
    /// # Errors
    /// ENOEXEC: not a program of this machine, or damaged.
    pub fn read(file: Arc<File>) -> Result<Self> {
        let mut bytes = [0; HEADER];
        let count = file.read_kernel(0, &mut bytes)?;
        let (header, abi) = parse_header(bytes.get(..count).ok_or(Errno::ENOEXEC)?)?;
        let size = header.e_phnum as usize * header_size(abi);
        let mut table = Vec::new();
        table.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
        table.resize(size, 0);
        if file.read_kernel(header.e_phoff, &mut table)? != size {
            return Err(Errno::ENOEXEC);
        }
        let parsed = SegmentTable::new(LittleEndian, header.class, &table);
        let mut segments = Vec::new();
        segments
            .try_reserve_exact(parsed.len())
            .map_err(|_| Errno::ENOMEM)?;
        segments.extend(parsed.iter());
        let program = Program {
            file,
            abi,
            header,
            segments,
        };
        program.check()?;
        Ok(program)
    }

    fn loads(&self) -> impl DoubleEndedIterator<Item = &ProgramHeader> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz != 0)
    }

    fn check(&self) -> Result<()> {
        let fits = |segment: &ProgramHeader| {
            let end = segment.p_vaddr.checked_add(segment.p_memsz);
            let aligned = segment.p_vaddr % PAGE_SIZE as u64 == segment.p_offset % PAGE_SIZE as u64;
            segment.p_filesz <= segment.p_memsz
                && segment.p_offset.checked_add(segment.p_filesz).is_some()
                && end.is_some_and(|end| end <= (self.abi.end)() as u64)
                && (aligned || segment.p_filesz == 0)
        };
        let ascending = self.loads().is_sorted_by_key(|segment| segment.p_vaddr);
        if self.loads().next().is_some() && self.loads().all(fits) && ascending {
            Ok(())
        } else {
            Err(Errno::ENOEXEC)
        }
    }

    /// The path of the interpreter that the program asks for.
    pub fn interpreter(&self) -> Result<Option<Vec<u8>>> {
        let Some(segment) = self
            .segments
            .iter()
            .find(|segment| segment.p_type == PT_INTERP)
        else {
            return Ok(None);
        };
        let len = usize::try_from(segment.p_filesz).unwrap_or(usize::MAX);
        if !(2..=LONGEST_PATH).contains(&len) {
            return Err(Errno::ENOEXEC);
        }
        let mut path = Vec::new();
        path.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        path.resize(len, 0);
        let count = self.file.read_kernel(segment.p_offset, &mut path)?;
        let whole = count == len && path.pop() == Some(0);
        if whole {
            Ok(Some(path))
        } else {
            Err(Errno::ENOEXEC)
        }
    }

    /// Whether its pages are to be guarded, according to its ELF property. There is none for 32
    /// bits.
    ///
    /// # Errors
    /// ENOEXEC: its properties are damaged. EIO.
    pub fn wants_guard(&self) -> Result<bool> {
        let mut segments = self.segments.iter();
        let property = segments.find(|segment| segment.p_type == PT_GNU_PROPERTY);
        let (Some((kind, bit)), Some(property)) = (arch::GUARD_PROPERTY, property) else {
            return Ok(false);
        };
        let mut note = [0; elf_property::LONGEST];
        let len = usize::try_from(property.p_filesz).unwrap_or(usize::MAX);
        let note = note.get_mut(..len).ok_or(Errno::ENOEXEC)?;
        let count = self.file.read_kernel(property.p_offset, note)?;
        let is_64bit = self.abi.is_64bit;
        let (align, wanted) = if is_64bit { (8, Some(kind)) } else { (4, None) };
        let bits = elf_property::bits(&note[..count], align, wanted)?;
        Ok(arch::has_guarded_pages() && bits & bit != 0)
    }

    /// Whether the program asks for an executable stack (PT_GNU_STACK).
    pub fn executable_stack(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.p_type == PT_GNU_STACK && segment.p_flags & PF_X != 0)
    }

    /// Whether the program runs at any address (ET_DYN).
    pub fn is_movable(&self) -> bool {
        self.header.e_type == ET_DYN
    }

    /// The ABI of its instruction set.
    pub fn abi(&self) -> &'static Abi {
        self.abi
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Maps the program into `space`: if it is position-independent, near `near`, or anywhere if
    /// that is `None`. Its instructions are `guarded`.
    ///
    /// # Errors
    /// ENOMEM, ENOEXEC.
    pub fn map(&self, space: &AddressSpace, near: Option<usize>, guarded: bool) -> Result<Mapped> {
        let first = self.loads().next().ok_or(Errno::ENOEXEC)?.p_vaddr as usize;
        let end = self
            .loads()
            .map(|segment| (segment.p_vaddr + segment.p_memsz) as usize)
            .max()
            .unwrap_or(first);
        let base = if self.is_movable() {
            self.reserve(space, page_down(first), end, near)?
        } else {
            0
        };
        let source = File::mapping(&self.file)?.ok_or(Errno::ENOEXEC)?;
        for segment in self.loads() {
            map_segment(space, segment, base, &source, (self.abi.end)(), guarded)?;
            cond_resched_killable()?;
        }
        Ok(Mapped {
            base,
            entry: base.wrapping_add(self.header.e_entry as usize),
            headers: base.wrapping_add(self.headers_address()),
            header_count: self.segments.len(),
            end: base + end,
        })
    }

    /// The addresses of the code and of the data, as in
    /// [`ProgramRanges`](crate::mm::ProgramRanges), before the load bias is added.
    pub fn parts(&self) -> [Range<usize>; 2] {
        let (mut code, mut data) = ((usize::MAX, 0), 0..0);
        for segment in self.loads() {
            let start = segment.p_vaddr as usize;
            let end = start + segment.p_filesz as usize;
            if segment.p_flags & PF_X != 0 {
                code = (code.0.min(start), code.1.max(end));
            }
            data = start..data.end.max(end);
        }
        [code.0..code.1, data]
    }

    /// Finds room for `first..end`, and reserves it by an inaccessible mapping; returns the load
    /// bias.
    fn reserve(
        &self,
        space: &AddressSpace,
        first: usize,
        end: usize,
        near: Option<usize>,
    ) -> Result<usize> {
        let align = self
            .loads()
            .map(|segment| segment.p_align as usize)
            .filter(|align| align.is_power_of_two());
        let align = align.max().unwrap_or(PAGE_SIZE).clamp(PAGE_SIZE, 2 << 20);
        let len = page_up(end) - first;
        let hint = near.unwrap_or(0) & !(align - 1);
        let place = if hint == 0 {
            Place::Hint(0)
        } else {
            Place::Hint(hint)
        };
        let room = if hint == 0 {
            len + align - PAGE_SIZE
        } else {
            len
        };
        let request = MapRequest {
            rights: Rights::empty(),
            ..MapRequest::anonymous(place, room)
        };
        let gone = &mut Removed::new();
        let start = space.map(request, gone)?;
        let aligned = start.next_multiple_of(align);
        let used = aligned..aligned + len;
        // Each segment is mapped over its part; the rest of the reservation is unmapped.
        for rest in [start..used.start, used.end..start + room] {
            if !rest.is_empty() {
                space.unmap(rest, gone)?;
            }
        }
        Ok(aligned.wrapping_sub(first))
    }

    /// The address of the program headers in memory, before the load bias is added.
    fn headers_address(&self) -> usize {
        if let Some(own) = self
            .segments
            .iter()
            .find(|segment| segment.p_type == PT_PHDR)
        {
            return own.p_vaddr as usize;
        }
        let at = self.header.e_phoff;
        let holds = |segment: &&ProgramHeader| {
            (segment.p_offset..segment.p_offset + segment.p_filesz).contains(&at)
        };
        self.loads().find(holds).map_or(0, |segment| {
            (at - segment.p_offset + segment.p_vaddr) as usize
        })
    }
}

/// Bytes of a program header.
pub fn header_size(abi: &Abi) -> usize {
    if abi.is_64bit { 56 } else { 32 }
}

fn parse_header(bytes: &[u8]) -> Result<(FileHeader<LittleEndian>, &'static Abi)> {
    let bad = |_| Errno::ENOEXEC;
    if bytes.len() < COMPAT_HEADER {
        return Err(Errno::ENOEXEC);
    }
    let ident = parse_ident::<LittleEndian>(bytes).map_err(bad)?;
    let is_64bit = ident.1 == Class::ELF64;
    if is_64bit && bytes.len() < HEADER {
        return Err(Errno::ENOEXEC);
    }
    let header = FileHeader::parse_tail(ident, &bytes[elf::abi::EI_NIDENT..]).map_err(bad)?;
    let runs = |abi: &&Abi| {
        abi.is_64bit == is_64bit
            && abi.machine == header.e_machine
            && (abi.flags == 0 || abi.flags & header.e_flags != 0)
            && (abi.available)()
    };
    let abi = ABIS.iter().find(runs).ok_or(Errno::ENOEXEC)?;
    let size = header_size(abi);
    let fits = matches!(header.e_type, ET_EXEC | ET_DYN)
        && header.e_phentsize as usize == size
        && (1..=MOST_HEADERS / size).contains(&(header.e_phnum as usize));
    if fits {
        Ok((header, abi))
    } else {
        Err(Errno::ENOEXEC)
    }
}

fn map_segment(
    space: &AddressSpace,
    segment: &ProgramHeader,
    base: usize,
    source: &Arc<dyn PageSource>,
    whole: usize,
    guarded: bool,
) -> Result<()> {
    let address = base.wrapping_add(segment.p_vaddr as usize);
    let (file_end, end) = (
        address + segment.p_filesz as usize,
        address + segment.p_memsz as usize,
    );
    if end > whole {
        return Err(Errno::ENOEXEC);
    }
    let start = page_down(address);
    let right = |flag, right| {
        if segment.p_flags & flag != 0 {
            right
        } else {
            Rights::empty()
        }
    };
    let mut rights = right(PF_R, Rights::READ)
        .union(right(PF_W, Rights::WRITE))
        .union(right(PF_X, Rights::EXECUTE));
    if guarded && rights.contains(Rights::EXECUTE) {
        rights = rights.union(Rights::GUARDED);
    }
    let (mut filled, gone) = (start, &mut Removed::new());
    if segment.p_filesz != 0 {
        filled = page_up(file_end);
        let request = MapRequest {
            place: Place::Fixed(start),
            len: filled - start,
            rights,
            flags: Flags::empty(),
            source: Source::File {
                mapping: source.clone(),
                offset: segment.p_offset as usize - (address - start),
            },
            label: Label::None,
            limit: usize::MAX,
        };
        space.map(request, gone)?;
        if rights.contains(Rights::WRITE) && end > file_end {
            clear(space, file_end, filled.min(page_up(end)))?;
        }
    }
    if page_up(end) > filled {
        let rest = MapRequest::anonymous(Place::Fixed(filled), page_up(end) - filled);
        space.map(MapRequest { rights, ..rest }, gone)?;
    }
    Ok(())
}

/// Zeroes the rest of a page beyond the file's part of it.
fn clear(space: &AddressSpace, from: usize, to: usize) -> Result<()> {
    const ZEROES: [u8; 256] = [0; 256];
    let mut at = from;
    while at < to {
        let len = ZEROES.len().min(to - at);
        if space.write(at, &ZEROES[..len])? != len {
            return Err(Errno::ENOEXEC);
        }
        at += len;
    }
    Ok(())
}
