//! Hardware breakpoints and watchpoints that a tracer sets for a thread (NT_ARM_HW_BREAK and
//! NT_ARM_HW_WATCH; Arm ARM, "Breakpoint Instruction exceptions" to "Watchpoint exceptions"). They
//! are in the CPU while the thread's program runs, and match only its own accesses.

use alloc::boxed::Box;
use alloc::vec::Vec;

use zerocopy::{FromBytes, IntoBytes};

use super::USER_END;
use super::sysreg::{isb, read, write};
use super::virt::debug::{self, registers};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_box;

/// The maximum number of each kind.
const MOST: usize = 16;
/// Size in bytes of `struct user_hwdebug_state`, of its header, and of an entry.
pub const SIZE: usize = HEAD + MOST * POINT;
const HEAD: usize = 8;
const POINT: usize = 16;

/// MDSCR_EL1: enables single steps; enables breakpoints and watchpoints.
const STEPS: usize = 1;
const POINTS: usize = 1 << 15;
/// MDSCR_EL1 of a program that is not debugged (TDCC): EL0 accesses to the debug channel trap.
pub const UNDEBUGGED: usize = 1 << 12;

/// Bits of a control register (DBGBCR<n>_EL1 and DBGWCR<n>_EL1): enabled; matches at EL0; loads and
/// stores.
const ON: u32 = 1;
const OF_PROGRAMS: u32 = 0b10 << 1;
const ACCESS_SHIFT: u32 = 3;
/// Position of the byte address select field.
const BYTES_SHIFT: u32 = 5;

/// The kind of access that a point matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Instructions.
    Break,
    /// Loads and stores.
    Watch,
}

/// Address and control register of each point.
type Row = [(u64, u32); MOST];

/// The breakpoints and watchpoints of a thread.
pub struct Points {
    breakpoints: Row,
    watchpoints: Row,
}

fn count(kind: Kind) -> usize {
    let (breakpoints, watchpoints) = debug::points();
    match kind {
        Kind::Break => breakpoints,
        Kind::Watch => watchpoints,
    }
}

/// Converts a tracer's request to the hardware format: an aligned address, and the bytes selected
/// from it on.
fn checked(kind: Kind, address: u64, control: u32) -> Result<(u64, u32)> {
    if control & ON == 0 {
        return Ok((address, control));
    }
    let (access, bytes) = (control >> ACCESS_SHIFT & 3, control >> BYTES_SHIFT & 0xff);
    let first = bytes.trailing_zeros();
    let run = bytes.checked_shr(first).unwrap_or(0);
    // Breakpoints always match all four bytes of an instruction.
    let (fits, aligned, length) = match kind {
        Kind::Break => (access == 0, 4, 0xf),
        Kind::Watch => (access != 0, 8, run),
    };
    // The selected bytes must be contiguous.
    if run == 0 || run & (run + 1) != 0 || !fits {
        return Err(Errno::EINVAL);
    }
    let start = address.saturating_add(first.into());
    if start >= USER_END as u64 {
        return Err(Errno::EPERM);
    }
    let bytes = length << (start % aligned) & 0xff;
    let control = ON | OF_PROGRAMS | access << ACCESS_SHIFT | bytes << BYTES_SHIFT;
    Ok((start & !(aligned - 1), control))
}

impl Points {
    fn new() -> Result<Box<Self>> {
        try_box(Points {
            breakpoints: [(0, 0); MOST],
            watchpoints: [(0, 0); MOST],
        })
    }

    fn row(&self, kind: Kind) -> &Row {
        match kind {
            Kind::Break => &self.breakpoints,
            Kind::Watch => &self.watchpoints,
        }
    }

    fn row_mut(&mut self, kind: Kind) -> &mut Row {
        match kind {
            Kind::Break => &mut self.breakpoints,
            Kind::Watch => &mut self.watchpoints,
        }
    }

    /// Whether any of them is enabled.
    pub fn are_on(&self) -> bool {
        let mut all = self.breakpoints.iter().chain(&self.watchpoints);
        all.any(|(_, control)| control & ON != 0)
    }

    /// Loads them into this CPU.
    fn load(&self) {
        for (number, (address, control)) in (0..count(Kind::Break)).zip(&self.breakpoints) {
            registers::set_break_value(number, *address);
            registers::set_break_control(number, (*control).into());
        }
        for (number, (address, control)) in (0..count(Kind::Watch)).zip(&self.watchpoints) {
            registers::set_watch_value(number, *address);
            registers::set_watch_control(number, (*control).into());
        }
    }
}

/// Appends the set of `kind` to `bytes`: the debug architecture and the number of points, followed
/// by the points.
pub fn get(points: Option<&Points>, kind: Kind, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.try_reserve_exact(SIZE).map_err(|_| Errno::ENOMEM)?;
    let architecture = read!("id_aa64dfr0_el1") as u32 & 0xf;
    bytes.extend_from_slice([architecture << 8 | count(kind) as u32, 0].as_bytes());
    let none = [(0, 0); MOST];
    let row = points.map_or(&none, |points| points.row(kind));
    for (address, control) in row {
        bytes.extend_from_slice(address.as_bytes());
        bytes.extend_from_slice([*control, 0].as_bytes());
    }
    Ok(())
}

/// Changes the points of `kind` that `bytes`, which begin with the set's header, contain.
///
/// # Errors
/// EINVAL (an invalid or incomplete point), EPERM (not a program's address), ENOSPC (too many
/// points), ENOMEM.
pub fn set(points: &mut Option<Box<Points>>, kind: Kind, bytes: &[u8]) -> Result<()> {
    let mut new = match points.take() {
        Some(old) => old,
        None => Points::new()?,
    };
    let changed = change(
        new.row_mut(kind),
        kind,
        bytes.get(HEAD..).unwrap_or_default(),
    );
    *points = Some(new);
    changed
}

fn change(row: &mut Row, kind: Kind, bytes: &[u8]) -> Result<()> {
    for (place, bytes) in bytes.chunks(POINT).enumerate() {
        let (address, rest) = u64::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
        if place >= count(kind) {
            return Err(Errno::ENOSPC);
        }
        let asked = u32::read_from_prefix(rest).map_or(row[place].1, |(control, _)| control);
        row[place] = checked(kind, address, asked)?;
    }
    Ok(())
}

/// Called before this CPU runs a thread's program: enables single steps if it `steps`, and its
/// points.
pub fn enter(points: Option<&Points>, steps: bool) {
    let mut control = UNDEBUGGED;
    if steps {
        control |= STEPS;
    }
    if let Some(points) = points {
        points.load();
        control |= POINTS;
    }
    // SAFETY: the kernel itself does not stop, since MDSCR_EL1.KDE is 0; the OS lock, which would
    // disable all debug exceptions, is cleared.
    unsafe {
        write!("oslar_el1", 0usize);
        write!("mdscr_el1", control);
    }
    isb();
}

/// Disables debug exceptions of programs on this CPU.
pub fn leave() {
    // SAFETY: as in `enter`.
    unsafe { write!("mdscr_el1", UNDEBUGGED) };
    isb();
}
