//! The note of a program's ELF properties (NT_GNU_PROPERTY_TYPE_0), parsed as strictly as by Linux
//! (`parse_elf_properties` in `fs/binfmt_elf.c`).

use zerocopy::FromBytes;

use crate::errno::{Errno, Result};

/// The maximum size of the note.
pub const LONGEST: usize = 1024;
/// NT_GNU_PROPERTY_TYPE_0
const KIND: u32 = 5;
/// The size of the note's header: the length of its name, that of its content, and its kind.
const HEAD: usize = 12;
const NAME: &[u8; 4] = b"GNU\0";

/// The bits of the property `wanted` in `note`, whose properties have this alignment; 0 if it does
/// not have that property.
///
/// # Errors
/// EIO: the note has no header. ENOEXEC: it is damaged.
pub fn bits(note: &[u8], align: usize, wanted: Option<u32>) -> Result<u32> {
    let (&head, content) = note.split_first_chunk::<HEAD>().ok_or(Errno::EIO)?;
    let (&name, content) = content.split_first_chunk().ok_or(Errno::EIO)?;
    let [name_len, len, kind]: [u32; 3] = zerocopy::transmute!(head);
    let is_known = kind == KIND && name_len as usize == NAME.len() && name == *NAME;
    let mut rest = content
        .get(..len as usize)
        .filter(|_| is_known)
        .ok_or(Errno::ENOEXEC)?;
    let (mut last, mut found) = (None, 0);
    while !rest.is_empty() {
        let ([kind, len], value) =
            <[u32; 2]>::read_from_prefix(rest).map_err(|_| Errno::ENOEXEC)?;
        let padded = (len as usize).next_multiple_of(align);
        // Each property occurs once, in ascending order.
        if last.is_some_and(|last| kind <= last) || padded > value.len() {
            return Err(Errno::ENOEXEC);
        }
        if Some(kind) == wanted {
            let value = value.get(..len as usize).ok_or(Errno::ENOEXEC)?;
            found = u32::read_from_bytes(value).map_err(|_| Errno::ENOEXEC)?;
        }
        last = Some(kind);
        rest = &value[padded..];
    }
    Ok(found)
}
