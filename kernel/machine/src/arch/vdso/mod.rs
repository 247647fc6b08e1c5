//! The vDSO in each program's address space: a page of data, followed by the object built from
//! `guest.rs`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) mod data;

use spin::Once;

use self::data::Data;
use super::{PAGE_SIZE, time};
use crate::errno::{Errno, Result};
use crate::mm::frame::{FrameRef, Owner};
use crate::mm::vma::{Flags, Label, PageSource, Rights, Source};
use crate::mm::{AddressSpace, MapRequest, Place, Removed};

/// The object that `build.rs` built.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso.so"));
/// The same object with landing pads, for guarded pages.
#[cfg(target_arch = "aarch64")]
static GUARDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vdso-guarded.so"));
#[cfg(not(target_arch = "aarch64"))]
static GUARDED: &[u8] = OBJECT;
/// The offset of the code in it that calls rt_sigreturn (vdso.ld).
pub(super) const SIGRETURN: usize = 0x800;

/// Pages provided by the kernel: for the vDSO, the data page, followed by the object's pages.
pub(super) struct Pages(pub(super) Vec<FrameRef>);

static PAGES: Once<Arc<Pages>> = Once::new();
static REALTIME_OFFSET: AtomicU64 = AtomicU64::new(0);

impl PageSource for Pages {
    fn tells_presence(&self) -> bool {
        false
    }

    fn page(&self, index: usize, _write: bool) -> Result<FrameRef> {
        self.0.get(index).cloned().ok_or(Errno::ENXIO)
    }

    fn len_pages(&self) -> usize {
        self.0.len()
    }

    fn write_name(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

/// Creates the pages, once. CLOCK_MONOTONIC started at `boot_ticks`.
///
/// # Errors
/// ENOMEM.
pub fn init(boot_ticks: u64) -> Result<()> {
    let object = if super::has_guarded_pages() {
        GUARDED
    } else {
        OBJECT
    };
    let mut pages = Vec::new();
    pages
        .try_reserve(1 + object.len().div_ceil(PAGE_SIZE))
        .map_err(|_| Errno::ENOMEM)?;
    let words = Data {
        boot_ticks,
        ns_by_tick: time::ns_by_tick(),
        realtime_offset: REALTIME_OFFSET.load(Relaxed),
        #[cfg(target_arch = "riscv64")]
        probes: super::probes(),
    };
    let data = page(&[])?;
    data.write(
        core::mem::offset_of!(Data, boot_ticks),
        &words.boot_ticks.to_ne_bytes(),
    );
    data.write(
        core::mem::offset_of!(Data, ns_by_tick),
        &words.ns_by_tick.to_ne_bytes(),
    );
    data.write(
        core::mem::offset_of!(Data, realtime_offset),
        &words.realtime_offset.to_ne_bytes(),
    );
    #[cfg(target_arch = "riscv64")]
    for (key, answer) in words.probes.iter().enumerate() {
        let place = core::mem::offset_of!(Data, probes) + key * size_of::<u64>();
        data.write(place, &answer.to_ne_bytes());
    }
    pages.push(data);
    for chunk in object.chunks(PAGE_SIZE) {
        pages.push(page(chunk)?);
    }
    PAGES.call_once(|| Arc::new(Pages(pages)));
    Ok(())
}

/// Allocates a page that begins with `bytes`.
pub(super) fn page(bytes: &[u8]) -> Result<FrameRef> {
    let frame = FrameRef::zeroed(Owner::File)?;
    frame.write(0, bytes);
    Ok(frame)
}

/// Sets the difference between the time of day and CLOCK_MONOTONIC to `ns`.
pub fn set_realtime_offset(ns: i64) {
    REALTIME_OFFSET.store(ns as u64, Relaxed);
    if let Some(pages) = PAGES.get() {
        let word = core::mem::offset_of!(Data, realtime_offset) / size_of::<u64>();
        pages.0[0].words()[word].store(ns as u64, Relaxed);
    }
}

/// Maps the vDSO; returns the object's address (AT_SYSINFO_EHDR), or 0 without one.
///
/// # Errors
/// ENOMEM.
pub fn map(space: &AddressSpace) -> Result<usize> {
    let Some(pages) = PAGES.get() else {
        return Ok(0);
    };
    let all = pages.0.len() * PAGE_SIZE;
    let request = |place, len, rights, label| MapRequest {
        place,
        len,
        rights,
        flags: Flags::empty(),
        source: Source::File {
            mapping: pages.clone(),
            offset: 0,
        },
        label,
        limit: usize::MAX,
    };
    let gone = &mut Removed::new();
    let mut execute = Rights::READ.union(Rights::EXECUTE);
    if super::has_guarded_pages() {
        execute = execute.union(Rights::GUARDED);
    }
    let base = space.map(request(Place::Hint(0), all, execute, Label::Vdso), gone)?;
    let time = request(Place::Fixed(base), PAGE_SIZE, Rights::READ, Label::Vvar);
    space.map(time, gone)?;
    Ok(base + PAGE_SIZE)
}

/// The address to which a signal handler returns in a program whose vDSO is at `base`.
pub const fn sigreturn(base: usize) -> usize {
    base + SIGRETURN
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_guarded_vdso_has_landing_pads_and_no_jumps_that_need_others() {
        // BTI C; BR to any register (Arm ARM, "BTI" and "BR").
        const PAD: u32 = 0xd503_245f;
        const JUMP: u32 = 0xd61f_0000;
        let words = || GUARDED[SIGRETURN..].chunks_exact(4).map(|word| {
            u32::from_le_bytes(word.try_into().expect("four bytes"))
        });
        let guarded = super::has_guarded_pages();
        if guarded {
            assert_eq!(words().filter(|word| *word == PAD).count(), 3);
            assert!(words().all(|word| word & 0xffff_fc1f != JUMP));
        }
    }
}
