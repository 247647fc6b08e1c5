//! BPF programs as user space passes them (`struct sock_fprog`): socket filters, and seccomp
//! filters.

use super::current;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use alloc::vec::Vec;
use bpf::Instruction;

/// The size of the structure in the current program's ABI: a count, and the address of the
/// instructions, at an offset of the size of an address.
pub fn size() -> usize {
    if current().arch.is_compat() { 8 } else { 16 }
}

/// The location of the instructions.
pub struct Place {
    start: usize,
    len: usize,
}

impl Place {
    /// Parses the structure.
    ///
    /// # Errors
    /// EINVAL: it has the wrong size, or there are no instructions or too many.
    pub fn of(structure: &[u8]) -> Result<Place> {
        let (count, address) = structure.split_at(structure.len() / 2);
        let (&count, _) = count.split_first_chunk().ok_or(Errno::EINVAL)?;
        let len = usize::from(u16::from_ne_bytes(count));
        let mut start = [0; size_of::<usize>()];
        start[..address.len()].copy_from_slice(address);
        if len == 0 || len > bpf::LONGEST {
            return Err(Errno::EINVAL);
        }
        let start = usize::from_le_bytes(start);
        Ok(Place { start, len })
    }

    /// Reads the instructions.
    ///
    /// # Errors
    /// EINVAL (the address is zero), EFAULT, ENOMEM.
    pub fn read(self) -> Result<Vec<Instruction>> {
        if self.start == 0 {
            return Err(Errno::EINVAL);
        }
        let words = UserPtr::<[u32; 2]>::new(self.start).read_vec(self.len)?;
        let mut program = Vec::new();
        program
            .try_reserve_exact(self.len)
            .map_err(|_| Errno::ENOMEM)?;
        program.extend(words.iter().map(|&[what, k]| Instruction {
            code: what as u16,
            if_true: (what >> 16) as u8,
            if_false: (what >> 24) as u8,
            k,
        }));
        Ok(program)
    }
}
