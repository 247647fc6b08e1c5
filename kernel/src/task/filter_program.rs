//! BPF programs as user space passes them (`struct sock_fprog`): socket filters, and seccomp
//! filters.

use super::current;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use alloc::vec::Vec;
use bpf::Instruction;

/// Bytes of the structure as the current program lays it out: a count, and behind as many bytes as
/// an address has, the address of the instructions.
pub fn size() -> usize {
    if current().arch.is_compat() { 8 } else { 16 }
}

/// Where the instructions are.
pub struct Place {
    start: usize,
    len: usize,
}

impl Place {
    /// As the structure says.
    ///
    /// # Errors
    /// EINVAL: it is none, or there are no instructions or too many.
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
