//! Pointer authentication of programs (FEAT_PAuth): the keys of each thread, and which of them are
//! enabled.
//!
//! The kernel does not use pointer authentication itself, so that the CPU holds the keys of the
//! thread that it runs, or ran last: a context switch loads them, and entries into the kernel do
//! nothing. Each program starts with its own keys, which its threads and children share until they
//! request new ones. All CPUs implement the same algorithm, or programs cannot use it
//! (`idreg::System`).

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

/// The address keys by their bits in prctl(2), and the bits that enable them in SCTLR_EL1: EnIA,
/// EnIB, EnDA, EnDB.
const SWITCHES: [(u32, usize); 4] = [
    (PR_PAC_APIAKEY, 1 << 31),
    (PR_PAC_APIBKEY, 1 << 30),
    (PR_PAC_APDAKEY, 1 << 27),
    (PR_PAC_APDBKEY, 1 << 13),
];
/// All address keys, as bits of prctl(2).
const OF_ADDRESSES: usize =
    (PR_PAC_APIAKEY | PR_PAC_APIBKEY | PR_PAC_APDAKEY | PR_PAC_APDBKEY) as usize;
const GENERIC: usize = PR_PAC_APGAKEY as usize;
/// All address keys, as bits of SCTLR_EL1.
const ALL_ON: usize = SWITCHES[0].1 | SWITCHES[1].1 | SWITCHES[2].1 | SWITCHES[3].1;

/// The pointer authentication state of a thread.
#[repr(C)]
#[derive(Clone)]
pub struct Authentication {
    keys: Keys,
    /// Bits of SCTLR_EL1; instructions for the other keys are no-ops.
    on: usize,
}

/// Whether programs can use pointer authentication.
pub(super) fn present() -> bool {
    features().address_auth()
}

impl Authentication {
    /// Random keys, all of them enabled: a program's initial state.
    pub(super) fn random() -> Self {
        let mut keys = Keys::RESET;
        random::fill(keys.as_mut_bytes());
        Authentication { keys, on: ALL_ON }
    }

    /// Loads the keys into this CPU; the exception return to a program synchronizes the registers.
    pub(super) fn load(&self) {
        self.keys.load();
        let sctlr = read!("sctlr_el1");
        let wanted = sctlr & !ALL_ON | self.on;
        if wanted != sctlr {
            // SAFETY: affects only instructions that the kernel's compiled code does not contain.
            unsafe { write!("sctlr_el1", wanted) };
        }
    }

    /// Generates new keys for those in `which`, bits of prctl(2).
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

    /// Enables those of `which` that are in `enabled`, and disables the others.
    ///
    /// # Errors
    /// EINVAL: `which` contains other keys than those for addresses, or `enabled` is not a subset
    /// of it.
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

/// Size of a key in bytes. Keys are in the order of their bits in prctl(2).
const KEY: usize = 16;

/// Calls `change` with the current thread's state, which takes effect afterwards.
///
/// # Errors
/// EINVAL if there is no pointer authentication, or it is a 32-bit program; those of `change`.
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

/// PR_PAC_RESET_KEYS: generates new keys; all of them if `which` is 0.
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

/// PR_PAC_SET_ENABLED_KEYS: of the keys `which`, enables those in `enabled`.
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

/// The register sets of pointer authentication, by the types of their ELF notes.
pub(super) mod note {
    /// NT_ARM_PAC_MASK: `struct user_pac_mask`, the signature bits of data and instruction
    /// addresses.
    pub const MASK: u32 = 0x406;
    /// NT_ARM_PACA_KEYS: `struct user_pac_address_keys`.
    pub const ADDRESS_KEYS: u32 = 0x407;
    /// NT_ARM_PACG_KEYS: `struct user_pac_generic_keys`.
    pub const GENERIC_KEYS: u32 = 0x408;
    /// NT_ARM_PAC_ENABLED_KEYS: as in PR_PAC_GET_ENABLED_KEYS.
    pub const ENABLED_KEYS: u32 = 0x40a;
    /// All of them, in the order of Linux's core files.
    pub const ALL: [u32; 4] = [MASK, ENABLED_KEYS, ADDRESS_KEYS, GENERIC_KEYS];
}

/// The signature bits of an address: those above the address bits, except bit 55, which selects the
/// half, and the top byte, which is ignored (TCR_EL1.TBI0).
const SIGNATURE: usize = (1 << 55) - USER_END;

/// Size of all address keys in bytes.
const ADDRESS_KEYS: usize = 4 * KEY;

impl Authentication {
    /// Returns the set `kind`; none if it does not exist.
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

    /// Changes the set `kind` to `bytes`, which must have its size.
    ///
    /// # Errors
    /// EINVAL if it is read-only, or the value is invalid.
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

/// Size of the set `kind` in bytes.
pub(super) fn size(kind: u32) -> usize {
    match kind {
        note::ADDRESS_KEYS => ADDRESS_KEYS,
        note::ENABLED_KEYS => 8,
        _ => 16,
    }
}

/// Whether the program of a stopped thread, or of the current one, has the set `kind`.
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
