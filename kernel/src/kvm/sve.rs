//! SVE's registers, one at a time (Documentation/virt/kvm/api.rst, 4.68 and 4.119).

use super::registers::ARM64;
use crate::arch::virt::{Guest, Sve};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};

/// Fields of a register's name.
const SVE: u64 = 0x15 << 16;
const KIND: u64 = 0xfff << 16;
const U256: u64 = 5 << 52;
const U512: u64 = 6 << 52;
const U2048: u64 = 8 << 52;
/// KVM_REG_ARM64_SVE_VLS: a bit for each vector length.
const LENGTHS: u64 = ARM64 | U512 | SVE | 0xffff;
/// The number of its words.
const LENGTHS_WORDS: usize = 8;
/// Z0 to Z31; P0 to P15, followed by FFR. The register number is above the slice number, which is
/// always 0.
const VECTOR: u64 = ARM64 | U2048 | SVE;
const PREDICATE: u64 = ARM64 | U256 | SVE | 0x400;
const VECTORS: u64 = 32;
const PREDICATES: u64 = 17;
const NUMBER: u32 = 5;
/// The size of a vector's and a predicate's value in bytes, whatever the vector length is.
const VECTOR_LEN: usize = 256;
const PREDICATE_LEN: usize = 32;

/// Whether the name is that of an SVE register.
pub fn names(id: u64) -> bool {
    id & KIND == SVE
}

/// The names of all SVE registers that a guest has, in the order in which they can be set.
pub fn all(guest: &Guest) -> impl Iterator<Item = u64> + use<> {
    let numbered = |first: u64, count: u64| (0..count).map(move |at| first | at << NUMBER);
    let registers = numbered(VECTOR, VECTORS).chain(numbered(PREDICATE, PREDICATES));
    let has = guest.sve.is_some();
    [LENGTHS].into_iter().chain(registers).filter(move |_| has)
}

/// The bytes of a register, and the size of its value.
fn place(sve: Option<&mut Sve>, id: u64) -> Result<(&mut [u8], usize)> {
    let last = |first: u64, count: u64| first | count << NUMBER;
    let is_vector = (VECTOR..last(VECTOR, VECTORS)).contains(&id);
    if !is_vector && !(PREDICATE..last(PREDICATE, PREDICATES)).contains(&id) {
        return Err(Errno::EINVAL);
    }
    let slice = id & ((1 << NUMBER) - 1);
    let sve = sve.filter(|_| slice == 0).ok_or(Errno::ENOENT)?;
    let found = if is_vector {
        let vector = sve.vector(((id - VECTOR) >> NUMBER) as usize);
        vector.map(|bytes| (bytes, VECTOR_LEN))
    } else {
        let predicate = sve.predicate(((id - PREDICATE) >> NUMBER) as usize);
        predicate.map(|bytes| (bytes, PREDICATE_LEN))
    };
    found.ok_or(Errno::EPERM)
}

/// Writes a register's value to the VMM's `address`, padded with zeroes.
pub fn get(guest: &mut Guest, id: u64, address: usize) -> Result<()> {
    if id == LENGTHS {
        let lengths = guest.sve.as_ref().ok_or(Errno::ENOENT)?.lengths();
        let mut words = [0; LENGTHS_WORDS];
        words[0] = u64::from(lengths);
        return UserPtr::new(address).write(&words);
    }
    let (bytes, len) = place(guest.sve.as_mut(), id)?;
    UserSlice::new(address, bytes.len()).copy_out(bytes)?;
    let rest = [0; VECTOR_LEN];
    UserSlice::new(address + bytes.len(), len - bytes.len()).copy_out(&rest[bytes.len()..len])
}

/// Sets a register to the value at the VMM's `address`.
pub fn set(guest: &mut Guest, id: u64, address: usize) -> Result<()> {
    if id == LENGTHS {
        let sve = guest.sve.as_mut().ok_or(Errno::ENOENT)?;
        if sve.is_finalized() {
            return Err(Errno::EPERM);
        }
        let words: [u64; LENGTHS_WORDS] = UserPtr::new(address).read()?;
        let others = words[1..].iter().any(|word| *word != 0);
        let lengths = u16::try_from(words[0]).map_err(|_| Errno::EINVAL)?;
        if others {
            return Err(Errno::EINVAL);
        }
        return sve.set_lengths(lengths);
    }
    let (bytes, _) = place(guest.sve.as_mut(), id)?;
    UserSlice::new(address, bytes.len()).copy_in(bytes)
}
