//! Pointer authentication of programs (FEAT_PAuth): the keys that a thread signs with, and which of
//! them are on.
//!
//! The kernel signs nothing, so that the CPU holds the keys of the thread that it runs, or ran
//! last: a switch to a thread loads them, and no entry into the kernel does anything. Each program
//! begins with keys of its own, its threads and children have the same until they ask for others.
//! All CPUs know the same algorithm, or programs have none of it (`idreg::System`).

use core::ops::BitOr;

use linux_raw_sys::prctl::*;
use zerocopy::{FromBytes, IntoBytes};

use super::USER_END;
use super::features;
use super::sysreg::{read, write};
use super::thread::ThreadState;
use super::virt::Keys;
use crate::arch::task;
use crate::errno::{Errno, Result};
use crate::random;

/// The keys of addresses by their bits in prctl(2), and as SCTLR_EL1 turns them on: EnIA, EnIB,
/// EnDA, EnDB (Arm ARM D24.2.118).
const SWITCHES: [(u32, usize); 4] = [
    (PR_PAC_APIAKEY, 1 << 31),
    (PR_PAC_APIBKEY, 1 << 30),
    (PR_PAC_APDAKEY, 1 << 27),
    (PR_PAC_APDBKEY, 1 << 13),
];
/// All of them, as prctl(2) has them.
const OF_ADDRESSES: usize =
    (PR_PAC_APIAKEY | PR_PAC_APIBKEY | PR_PAC_APDAKEY | PR_PAC_APDBKEY) as usize;
const GENERIC: usize = PR_PAC_APGAKEY as usize;
/// All of them, as SCTLR_EL1 has them.
const ALL_ON: usize = SWITCHES[0].1 | SWITCHES[1].1 | SWITCHES[2].1 | SWITCHES[3].1;

/// What the program of a thread signs with.
#[repr(C)]
#[derive(Clone)]
pub struct Authentication {
    keys: Keys,
    /// Bits of SCTLR_EL1: instructions of the other keys do nothing.
    on: usize,
}

/// Whether programs have pointer authentication.
pub(super) fn present() -> bool {
    features().address_auth()
}

impl Authentication {
    /// Keys that nobody knows, all of them on: a program's first.
    pub(super) fn random() -> Self {
        let mut keys = Keys::RESET;
        random::fill(keys.as_mut_bytes());
        Authentication { keys, on: ALL_ON }
    }

    /// Lets this CPU sign with them once it runs a program: the return to it makes the registers
    /// count.
    pub(super) fn load(&self) {
        self.keys.load();
        let sctlr = read!("sctlr_el1");
        let wanted = sctlr & !ALL_ON | self.on;
        if wanted != sctlr {
            // SAFETY: concerns instructions that no compiled code of the kernel has.
            unsafe { write!("sctlr_el1", wanted) };
        }
    }

    /// New keys in place of those that `which`, bits of prctl(2), names.
    fn renew(&mut self, which: usize) {
        for (at, key) in self.keys.as_mut_bytes().chunks_mut(KEY).enumerate() {
            if which >> at & 1 != 0 {
                random::fill(key);
            }
        }
    }

    fn enabled(&self) -> usize {
        let on = SWITCHES.iter().filter(|(_, bit)| self.on & bit != 0);
        on.map(|(key, _)| *key as usize).fold(0, BitOr::bitor)
    }

    /// Turns on those of `which` that are among `enabled`, and off the others.
    ///
    /// # Errors
    /// EINVAL: one is no key of addresses, or `enabled` is not among `which`.
    fn set_enabled(&mut self, which: usize, enabled: usize) -> Result<()> {
        if which & !OF_ADDRESSES != 0 || enabled & !which != 0 {
            return Err(Errno::EINVAL);
        }
        let switched = SWITCHES
            .iter()
            .filter(|(key, _)| which & *key as usize != 0);
        for (key, bit) in switched {
            let on = enabled & *key as usize != 0;
            self.on = self.on & !bit | if on { *bit } else { 0 };
        }
        Ok(())
    }
}

/// Bytes of a key. Their order is that of their bits in prctl(2).
const KEY: usize = 16;

/// Calls `change` with what the current thread signs with, which counts from then on.
///
/// # Errors
/// EINVAL: there is no pointer authentication, or the program has 32 bits; or those of `change`.
fn change_own<R>(change: impl FnOnce(&mut Authentication) -> Result<R>) -> Result<R> {
    let state = task::state();
    if !present() || state.is_compat() {
        return Err(Errno::EINVAL);
    }
    state.own_authentication(|own| {
        let result = change(own)?;
        own.load();
        Ok(result)
    })
}

/// PR_PAC_RESET_KEYS: new keys, all if none is named.
///
/// # Errors
/// EINVAL
pub(super) fn reset_keys(which: usize) -> Result<usize> {
    let all = OF_ADDRESSES
        | if features().generic_auth() {
            GENERIC
        } else {
            0
        };
    if which & !all != 0 {
        return Err(Errno::EINVAL);
    }
    change_own(|own| {
        own.renew(if which == 0 { all } else { which });
        Ok(0)
    })
}

/// PR_PAC_SET_ENABLED_KEYS: of the keys `which`, `enabled` are on.
///
/// # Errors
/// EINVAL
pub fn set_enabled_keys(which: usize, enabled: usize) -> Result<usize> {
    change_own(|own| own.set_enabled(which, enabled).map(|()| 0))
}

/// PR_PAC_GET_ENABLED_KEYS
///
/// # Errors
/// EINVAL
pub(super) fn enabled_keys() -> Result<usize> {
    change_own(|own| Ok(own.enabled()))
}

/// The sets of registers that have to do with it, by the types of their ELF notes.
pub(super) mod note {
    /// NT_ARM_PAC_MASK: `struct user_pac_mask`, the bits of addresses of data and of instructions
    /// that hold signatures.
    pub const MASK: u32 = 0x406;
    /// NT_ARM_PACA_KEYS: `struct user_pac_address_keys`.
    pub const ADDRESS_KEYS: u32 = 0x407;
    /// NT_ARM_PACG_KEYS: `struct user_pac_generic_keys`.
    pub const GENERIC_KEYS: u32 = 0x408;
    /// NT_ARM_PAC_ENABLED_KEYS: as PR_PAC_GET_ENABLED_KEYS has them.
    pub const ENABLED_KEYS: u32 = 0x40a;
    /// All of them, in the order of Linux's core files.
    pub const ALL: [u32; 4] = [MASK, ENABLED_KEYS, ADDRESS_KEYS, GENERIC_KEYS];
}

/// The bits of an address that hold its signature: those above addresses but for bit 55, which says
/// whose half it is, and the top byte, which is the program's (TCR_EL1.TBI0).
const SIGNATURE: usize = (1 << 55) - USER_END;

/// Bytes of the keys of addresses.
const ADDRESS_KEYS: usize = 4 * KEY;

impl Authentication {
    /// The set `kind`; none if there is no such.
    pub(super) fn set_of(&self, kind: u32) -> Option<[u8; ADDRESS_KEYS]> {
        let mut bytes = [0; ADDRESS_KEYS];
        let keys = self.keys.as_bytes();
        match kind {
            note::MASK => bytes[..16].copy_from_slice([SIGNATURE; 2].as_bytes()),
            note::ADDRESS_KEYS => bytes.copy_from_slice(&keys[..ADDRESS_KEYS]),
            note::GENERIC_KEYS if features().generic_auth() => {
                bytes[..KEY].copy_from_slice(&keys[ADDRESS_KEYS..]);
            }
            note::ENABLED_KEYS => bytes[..8].copy_from_slice(&self.enabled().to_ne_bytes()),
            _ => return None,
        }
        Some(bytes)
    }

    /// Changes the set `kind` to `bytes`, which are as many as it has.
    ///
    /// # Errors
    /// EINVAL: it cannot be changed, or not to that.
    fn set(&mut self, kind: u32, bytes: &[u8]) -> Result<()> {
        let keys = self.keys.as_mut_bytes();
        match kind {
            note::ADDRESS_KEYS => keys[..ADDRESS_KEYS].copy_from_slice(bytes),
            note::GENERIC_KEYS => keys[ADDRESS_KEYS..].copy_from_slice(bytes),
            note::ENABLED_KEYS => {
                let enabled = usize::read_from_bytes(bytes).map_err(|_| Errno::EINVAL)?;
                return self.set_enabled(OF_ADDRESSES, enabled);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

/// Bytes of the set `kind`.
pub(super) fn size(kind: u32) -> usize {
    match kind {
        note::ADDRESS_KEYS => ADDRESS_KEYS,
        note::ENABLED_KEYS => 8,
        _ => 16,
    }
}

/// Whether the program of a thread that is stopped, or of the current one, has the set `kind`.
pub(super) fn has_set(state: &ThreadState, kind: u32) -> bool {
    note::ALL.contains(&kind) && present() && !state.is_compat()
}

/// Changes the set `kind` of a stopped thread, which has it.
///
/// # Errors
/// EINVAL
pub(super) fn set(state: &ThreadState, kind: u32, bytes: &[u8]) -> Result<()> {
    state.with_stopped_authentication(|stopped| stopped.set(kind, bytes))
}

const _: () = assert!(size_of::<Keys>() == ADDRESS_KEYS + KEY);
