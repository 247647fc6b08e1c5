//! System V shared memory. Each attachment is a VMA like any other; a removed segment lives on in
//! its attachments.

use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::RLIMIT_MEMLOCK;
use radix::Radix;

use super::registry::{self, Header, Object, Owner, Registry};
use crate::errno::{Errno, Result};
use crate::mm::frame::FrameRef;
use crate::mm::heap::try_arc;
use crate::mm::shared::SharedPages;
use crate::mm::vma::PageSource;
use crate::mm::{PAGE_SIZE, commit, page_down, page_up};
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use crate::task::{current, rlimit, user};

/// The maximum number of segments (SHMMNI).
const MOST: usize = 4096;
/// The maximum size of a new segment in bytes (SHMMAX, `/proc/sys/kernel/shmmax`).
pub static LARGEST: AtomicUsize = AtomicUsize::new(ALL);
/// The maximum number of pages in all segments (SHMALL, `/proc/sys/kernel/shmall`).
pub static MOST_PAGES: AtomicUsize = AtomicUsize::new(ALL);
/// The initial value of both limits.
const ALL: usize = usize::MAX - (1 << 24);

/// Flags in a segment's mode: removed, locked (include/linux/shm.h).
const SHM_DEST: u32 = 0o1000;
const SHM_LOCKED: u32 = 0o2000;
/// shmget(2): pages count as committed only when they are allocated.
const SHM_NORESERVE: u32 = 0o10000;
/// shmget(2): use huge pages.
const SHM_HUGETLB: u32 = 0o4000;
const _: () = assert!(
    abi::options::SHMGET.is_handled_by(&[
        registry::CREATE as u64,
        registry::EXCLUSIVE as u64,
        SHM_NORESERVE as u64,
    ]),
    "abi and shmget disagree"
);

/// All segments.
pub static SEGMENTS: Registry<Segment> = Registry::new(MOST);

/// The pages of a segment; the segment holds them until it is removed.
enum Pages {
    Kept(Arc<SharedPages>),
    Removed(Weak<SharedPages>),
}

/// The number of pages in all segments, each counted with its full size.
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// The part of `PAGES` that a segment takes.
struct Charge(usize);

impl Charge {
    /// ENOSPC if there would be too many.
    fn take(pages: usize) -> Result<Self> {
        let most = MOST_PAGES.load(Relaxed);
        let fits = |held: usize| held.checked_add(pages).filter(|&sum| sum <= most);
        let charged = PAGES.fetch_update(Relaxed, Relaxed, fits);
        charged.map(|_| Charge(pages)).map_err(|_| Errno::ENOSPC)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        PAGES.fetch_sub(self.0, Relaxed);
    }
}

/// A segment.
pub struct Segment {
    /// The size in bytes.
    pub size: usize,
    _charge: Charge,
    creator: i32,
    state: Mutex<State>,
}

struct State {
    header: Header,
    pages: Pages,
    times: Times,
    last_user: i32,
    attachments: Attachments,
    /// Present while the segment is locked.
    locked: Option<user::Charge>,
}

/// The attachments of a segment, by number, so that they can be counted in portions: there may be
/// as many as there are VMAs in all processes.
struct Attachments {
    all: Radix<Weak<Attachment>>,
    /// The number of the next one.
    next: usize,
}

/// The number of attachments counted in one go with the segment locked.
const PORTION: usize = 256;
/// The memory for which an attachment is charged: a node of the tree may be there for it alone.
const ATTACHMENT: usize = 1024;

impl Attachments {
    const fn new() -> Self {
        Attachments {
            all: Radix::new(),
            next: 0,
        }
    }

    /// Adds an attachment, and stores its number in it. ENOMEM.
    fn add(&mut self, attachment: &mut Arc<Attachment>) -> Result<()> {
        let number = self.next;
        // Also used up if it cannot be added.
        self.next += 1;
        Arc::get_mut(attachment).expect("nobody else has it").number = Some(number);
        let added = self.all.insert(number, Arc::downgrade(attachment));
        added.map(drop).map_err(|_| Errno::ENOMEM)
    }

    /// The number of VMAs of the attachments in a portion, and where the next one begins; None if
    /// there are no more.
    fn count(&self, from: usize) -> Option<(usize, usize)> {
        let (mut vmas, mut next) = (0, self.all.next_item(from)?);
        for _ in 0..PORTION {
            vmas += self.all.get(next).map_or(0, Weak::strong_count);
            match self.all.next_item(next + 1) {
                Some(behind) => next = behind,
                None => return Some((vmas, usize::MAX)),
            }
        }
        Some((vmas, next))
    }
}

/// The mapping made by one shmat(2). The VMAs that it was split into, or that fork(2) copied, share
/// it, and shmdt(2) finds them by it.
pub struct Attachment {
    segment: Arc<Segment>,
    pages: Arc<SharedPages>,
    /// Its number among the segment's attachments, once it is one.
    number: Option<usize>,
    _charge: user::Charge,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut left = None;
            let all = &mut self.segment.state.lock().attachments.all;
            all.remove_range(number, number, &mut |attachment| left = Some(attachment));
        }
    }
}

impl PageSource for Attachment {
    fn may_have_tags(&self) -> bool {
        true
    }

    fn object(&self) -> usize {
        self.pages.object()
    }

    fn page(&self, index: usize, write: bool) -> Result<FrameRef> {
        self.pages.page(index, write)
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        self.pages.present(first, frames);
    }

    fn next_present(&self, first: usize) -> Option<usize> {
        self.pages.next_present(first)
    }

    fn len_pages(&self) -> usize {
        self.pages.len_pages()
    }

    fn clear(&self, pages: Range<usize>) -> Result<()> {
        self.pages.clear(pages)
    }

    fn write_name(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.pages.write_name(out)
    }
}

/// When a segment was last attached, detached and changed, in seconds since 1970.
#[derive(Clone, Copy, Default)]
pub struct Times {
    /// Attached last.
    pub attached: u64,
    /// Detached last.
    pub detached: u64,
    /// Changed last.
    pub changed: u64,
}

impl Object for Segment {
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T {
        f(&mut self.state.lock().header)
    }

    fn is_gone(&self) -> bool {
        let state = self.state.lock();
        matches!(&state.pages, Pages::Removed(pages) if pages.strong_count() == 0)
    }
}

/// The number of the segment with `key`; see [`Registry::get`].
///
/// # Errors
/// EINVAL (too small or too large), ENOMEM (huge pages, of which none are reserved), and the errors
/// of [`Registry::get`].
pub fn get(key: i32, size: usize, flags: u32) -> Result<usize> {
    let make = |header: Header| {
        // As for files, whose sizes are signed.
        if size == 0 || size > LARGEST.load(Relaxed).min(i64::MAX as usize) {
            return Err(Errno::EINVAL);
        }
        if flags & SHM_HUGETLB != 0 {
            return Err(Errno::ENOMEM);
        }
        let reserved = flags & SHM_NORESERVE == 0 || commit::is_strict();
        try_arc(Segment {
            size,
            _charge: Charge::take(size.div_ceil(PAGE_SIZE))?,
            creator: current().process_id(),
            state: Mutex::new(State {
                pages: Pages::Kept(SharedPages::named(
                    page_up(size) / PAGE_SIZE,
                    Some(header.key),
                    reserved,
                )?),
                header,
                times: Times {
                    changed: registry::now(),
                    ..Times::default()
                },
                last_user: 0,
                attachments: Attachments::new(),
                locked: None,
            }),
        })
    };
    let fits = |segment: &Segment| {
        if size > segment.size {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    };
    SEGMENTS.get(key, flags, make, fits)
}

/// The attachment that `source` is, if it is one.
pub fn of(source: &Arc<dyn PageSource>) -> Option<Arc<Attachment>> {
    let source: Arc<dyn Any + Send + Sync> = source.clone();
    source.downcast().ok()
}

impl Attachment {
    /// The attached segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

impl Segment {
    /// The mapping for one call of shmat(2).
    ///
    /// # Errors
    /// EIDRM: the segment is gone. ENOMEM.
    pub fn attach(self: &Arc<Self>) -> Result<Arc<Attachment>> {
        // This is taken before the lock below, because dropping it may free the pages.
        let pages = match &self.state.lock().pages {
            Pages::Kept(pages) => pages.clone(),
            Pages::Removed(pages) => pages.upgrade().ok_or(Errno::EIDRM)?,
        };
        let charge = registry::charge(ATTACHMENT).ok_or(Errno::ENOMEM)?;
        let mut attachment = try_arc(Attachment {
            segment: self.clone(),
            pages,
            number: None,
            _charge: charge,
        })?;
        self.state.lock().attachments.add(&mut attachment)?;
        Ok(attachment)
    }

    /// Whether the segment was removed, and exists only as long as it is attached.
    pub fn is_removed(&self) -> bool {
        matches!(self.state.lock().pages, Pages::Removed(_))
    }

    /// The number of VMAs that it is attached in. Other threads run meanwhile.
    pub fn attached(&self) -> usize {
        let (mut total, mut from) = (0, 0);
        loop {
            let portion = self.state.lock().attachments.count(from);
            let Some((vmas, next)) = portion else {
                return total;
            };
            (total, from) = (total + vmas, next);
            cond_resched();
        }
    }

    /// Records that the caller attached it, or (`false`) detached it.
    pub fn used(&self, attached: bool) {
        let mut state = self.state.lock();
        state.last_user = current().process_id();
        if attached {
            state.times.attached = registry::now();
        } else {
            state.times.detached = registry::now();
        }
    }

    /// The result of shmctl(2): owner and permissions, times, and the process IDs of the creator
    /// and the last user.
    pub fn status(&self) -> (Header, Times, [i32; 2]) {
        let state = self.state.lock();
        (state.header, state.times, [self.creator, state.last_user])
    }

    /// Changes owner or permissions. EINVAL.
    pub fn change(&self, to: &Owner) -> Result<()> {
        let mut state = self.state.lock();
        state.header.change(to)?;
        state.times.changed = registry::now();
        Ok(())
    }

    /// SHM_LOCK: this only counts and reports the pages, since nothing is ever paged out.
    ///
    /// # Errors
    /// EPERM; ENOMEM beyond RLIMIT_MEMLOCK, which limits all segments of the user together.
    pub fn lock(&self) -> Result<()> {
        let mut state = self.state.lock();
        let limit = match state.header.check_lock()? {
            true => usize::MAX,
            false => rlimit(RLIMIT_MEMLOCK),
        };
        if limit == 0 {
            return Err(Errno::EPERM);
        }
        if state.locked.is_none() {
            let (size, most) = (page_up(self.size), page_down(limit));
            let charge = user::Charge::new(|user| &user.locked, size, most);
            state.locked = Some(charge.ok_or(Errno::ENOMEM)?);
            state.header.mode |= SHM_LOCKED;
        }
        Ok(())
    }

    /// SHM_UNLOCK.
    ///
    /// # Errors
    /// EPERM.
    pub fn unlock(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.header.check_lock()?;
        state.header.mode &= !SHM_LOCKED;
        let charge = state.locked.take();
        drop(state);
        drop(charge);
        Ok(())
    }
}

/// Removes a segment: no key finds it any more, and its memory is freed when nobody has it
/// attached. The caller must own it.
///
/// # Errors
/// EPERM.
pub fn remove(number: i32, segment: &Arc<Segment>) -> Result<()> {
    let mut state = segment.state.lock();
    state.header.check_owner()?;
    let kept = match &state.pages {
        Pages::Kept(pages) => Some(pages.clone()),
        Pages::Removed(_) => None,
    };
    if let Some(pages) = &kept {
        state.pages = Pages::Removed(Arc::downgrade(pages));
        state.header.mode |= SHM_DEST;
    }
    drop(state);
    if kept.is_some() {
        SEGMENTS.unlink_key(number, segment);
        drop(kept);
        SEGMENTS.reap();
    }
    Ok(())
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn attachments_are_charged_and_leave_nothing() {
        const MANY: usize = 2 * PORTION + 1;
        let charged = || current().with_credentials(|who| who.user.system_v.load(Relaxed));
        let number = get(0, PAGE_SIZE, 0o600).unwrap() as i32;
        let segment = SEGMENTS.by_number(number).unwrap();
        let before = charged();
        let mut all: alloc::vec::Vec<_> = (0..MANY).map(|_| segment.attach().unwrap()).collect();
        assert_eq!((segment.attached(), charged()), (MANY, before + MANY * ATTACHMENT));
        all.truncate(1);
        assert_eq!((segment.attached(), charged()), (1, before + ATTACHMENT));
        drop(all);
        assert!(segment.attached() == 0 && segment.state.lock().attachments.all.is_empty());
        remove(number, &segment).unwrap();
    }
}
