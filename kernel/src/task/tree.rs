//! All threads and processes by number, and who is whose child.

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use super::credentials::Credentials;
use super::{Process, Thread};
use crate::errno::{Errno, Result};
use crate::sync::{Mutex, Rank};
use linux_raw_sys::general::SIGCHLD;

/// New numbers are below this at first, as on Linux by default.
pub const PID_MAX: i32 = 32768;
/// New numbers are below this (`/proc/sys/kernel/pid_max`).
static LIMIT: AtomicI32 = AtomicI32::new(PID_MAX);
/// After the last number, the search goes on here.
const FIRST_AGAIN: i32 = 300;

/// What a number stands for.
#[derive(Default)]
struct Entry {
    thread: Option<Arc<Thread>>,
    process: Option<Arc<Process>>,
    /// Its oldest and its youngest child, and the next older and younger child of its parent; 0: none.
    oldest: i32,
    youngest: i32,
    older: i32,
    younger: i32,
}

/// What new numbers are below.
pub fn pid_max() -> i32 {
    LIMIT.load(Relaxed)
}

/// Changes that.
///
/// # Errors
/// EINVAL.
pub fn set_pid_max(limit: i32) -> Result<()> {
    // Linux's bounds.
    if !(FIRST_AGAIN + 1..=1 << 22).contains(&limit) {
        return Err(Errno::EINVAL);
    }
    LIMIT.store(limit, Relaxed);
    Ok(())
}

struct Tree {
    entries: BTreeMap<i32, Entry>,
    last: i32,
    wrapped: bool,
}

static TREE: Mutex<Tree> = Mutex::ranked(
    Rank::Tree,
    Tree {
        entries: BTreeMap::new(),
        last: 0,
        wrapped: false,
    },
);

impl Tree {
    fn process(&self, pid: i32) -> Option<&Arc<Process>> {
        self.entries.get(&pid)?.process.as_ref()
    }

    fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.entries
            .values()
            .filter_map(|entry| entry.process.as_ref())
    }

    /// Whether a process group or a session still has that number.
    fn names_group(&self, number: i32) -> bool {
        self.wrapped && self.has_group(number)
    }

    fn has_group(&self, number: i32) -> bool {
        self.processes()
            .any(|process| process.group() == number || process.session() == number)
    }
}

/// Who is whose child. The children are linked through their entries, so that nothing fails when they change their parent.
impl Tree {
    fn entry(&mut self, pid: i32) -> Option<&mut Entry> {
        self.entries.get_mut(&pid)
    }

    /// Makes `child` the youngest child of `parent`; returns its entry.
    fn adopt(&mut self, parent: i32, child: i32) -> Option<&mut Entry> {
        let mut older = 0;
        if let Some(above) = self.entry(parent) {
            older = core::mem::replace(&mut above.youngest, child);
            if older == 0 {
                above.oldest = child;
            }
        }
        if older != 0
            && let Some(sibling) = self.entry(older)
        {
            sibling.younger = child;
        }
        let entry = self.entry(child)?;
        (entry.older, entry.younger) = (older, 0);
        Some(entry)
    }

    /// Takes the child between `older` and `younger` from the children of `parent`.
    fn disown(&mut self, parent: i32, older: i32, younger: i32) {
        if older != 0
            && let Some(sibling) = self.entry(older)
        {
            sibling.younger = younger;
        }
        if younger != 0
            && let Some(sibling) = self.entry(younger)
        {
            sibling.older = older;
        }
        if (older == 0 || younger == 0)
            && let Some(above) = self.entry(parent)
        {
            if older == 0 {
                above.oldest = younger;
            }
            if younger == 0 {
                above.youngest = older;
            }
        }
    }

    /// The children of `parent`, the oldest first.
    fn children(&self, parent: i32) -> impl Iterator<Item = &Arc<Process>> {
        let mut next = self.entries.get(&parent).map_or(0, |entry| entry.oldest);
        core::iter::from_fn(move || {
            if next == 0 {
                return None;
            }
            let entry = self.entries.get(&next)?;
            next = entry.younger;
            Some(entry.process.as_ref())
        })
        .flatten()
    }

    /// The nearest living subreaper above a process, or process 1.
    fn heir(&self, process: &Process) -> i32 {
        let mut heir = process.parent();
        let inherits = |above: &Arc<Process>| above.is_subreaper() && !above.is_exiting();
        while heir > 1 && !self.process(heir).is_some_and(inherits) {
            heir = self.process(heir).map_or(1, |above| above.parent());
        }
        heir.max(1)
    }
}

/// Takes a free number.
///
/// # Errors
/// EAGAIN: all are in use.
pub fn allocate() -> Result<i32> {
    let mut tree = TREE.lock();
    let limit = pid_max();
    for _ in 0..limit {
        let mut next = tree.last + 1;
        if next >= limit {
            (next, tree.wrapped) = (FIRST_AGAIN, true);
        }
        tree.last = next;
        if !tree.entries.contains_key(&next) && !tree.names_group(next) {
            tree.entries.insert(next, Entry::default());
            return Ok(next);
        }
    }
    Err(Errno::EAGAIN)
}

/// Takes the number that is asked for.
///
/// # Errors
/// EEXIST: it is in use.
pub fn allocate_as(number: i32) -> Result<i32> {
    let mut tree = TREE.lock();
    if tree.entries.contains_key(&number) || tree.has_group(number) {
        return Err(Errno::EEXIST);
    }
    tree.entries.insert(number, Entry::default());
    Ok(number)
}

/// Gives a number back that stands for nothing any more.
pub fn release(number: i32) {
    let gone = TREE.lock().entries.remove(&number);
    drop(gone);
}

/// The last number that was given out.
pub fn last() -> i32 {
    TREE.lock().last
}

/// Enters a new thread by its number.
pub fn add_thread(thread: Arc<Thread>) {
    let mut tree = TREE.lock();
    if let Some(entry) = tree.entries.get_mut(&thread.tid()) {
        entry.thread = Some(thread);
    }
}

/// Enters a new process by its number, as a child of its parent: of that which `sibling` has by now, if there is one.
pub fn add_process(process: Arc<Process>, sibling: Option<&Process>) {
    let mut tree = TREE.lock();
    if let Some(sibling) = sibling {
        process.parent.store(sibling.parent(), Relaxed);
    }
    if let Some(entry) = tree.adopt(process.parent(), process.pid()) {
        entry.process = Some(process);
    }
}

/// A thread is no more; its number is free unless a process has it.
pub fn remove_thread(tid: i32) {
    let mut tree = TREE.lock();
    let Some(entry) = tree.entries.get_mut(&tid) else {
        return;
    };
    let thread = entry.thread.take();
    let gone = if entry.process.is_none() {
        tree.entries.remove(&tid)
    } else {
        None
    };
    drop(tree);
    if let Some(thread) = &thread {
        thread.uncount();
    }
    drop((thread, gone));
}

/// A process was waited for and is no more.
pub fn remove_process(process: &Process) {
    let mut tree = TREE.lock();
    let gone = tree.entries.remove(&process.pid());
    if let Some(entry) = &gone {
        tree.disown(process.parent(), entry.older, entry.younger);
    }
    drop(tree);
    process.uncount();
    drop(gone);
}

/// The only thread of a process that ran as another number takes the number of the process.
pub fn take_over(thread: &Thread, pid: i32) {
    let mut tree = TREE.lock();
    let old = tree.entries.remove(&thread.tid());
    let moved = old.and_then(|entry| entry.thread);
    thread.take_over(pid);
    let leader = tree
        .entries
        .get_mut(&pid)
        .and_then(|entry| core::mem::replace(&mut entry.thread, moved));
    drop(tree);
    drop(leader);
}

/// The process with number `pid`, living or not waited for yet.
pub fn process(pid: i32) -> Option<Arc<Process>> {
    TREE.lock().process(pid).cloned()
}

/// The living thread with number `tid`.
pub fn thread(tid: i32) -> Option<Arc<Thread>> {
    TREE.lock().entries.get(&tid)?.thread.clone()
}

/// Who the thread or the ended process with number `tid` acts as.
pub fn credentials(tid: i32) -> Option<Arc<Credentials>> {
    let tree = TREE.lock();
    let entry = tree.entries.get(&tid)?;
    match (&entry.thread, &entry.process) {
        (Some(thread), _) => Some(thread.credentials()),
        (None, Some(process)) => Some(process.credentials()),
        (None, None) => None,
    }
}

/// Whether the thread still has its number.
pub fn is_living(thread: &Thread) -> bool {
    self::thread(thread.tid()).is_some_and(|found| core::ptr::eq(&*found, thread))
}

/// The process with the lowest number from `from` on, for `/proc`.
pub fn next_process(from: i32) -> Option<Arc<Process>> {
    TREE.lock()
        .entries
        .range(from..)
        .find_map(|(_, entry)| entry.process.clone())
}

/// How many processes there are.
pub fn count() -> usize {
    TREE.lock().processes().count()
}

/// Calls `f` with each process for which `wanted` holds, without the tree's lock.
///
/// # Errors
/// ENOMEM.
pub fn for_each(wanted: impl Fn(&Process) -> bool, mut f: impl FnMut(&Arc<Process>)) -> Result<()> {
    let mut found = Vec::new();
    {
        let tree = TREE.lock();
        for process in tree.processes().filter(|process| wanted(process)) {
            found.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            found.push(process.clone());
        }
    }
    found.iter().for_each(&mut f);
    Ok(())
}

/// Whether `wanted` holds for any process.
pub fn any(wanted: impl Fn(&Process) -> bool) -> bool {
    TREE.lock().processes().any(|process| wanted(process))
}

/// The first child of `parent` that `select` chooses.
pub fn find_child<T>(
    parent: &Process,
    mut select: impl FnMut(&Arc<Process>) -> Option<T>,
) -> Option<T> {
    let tree = TREE.lock();
    tree.children(parent.pid()).find_map(&mut select)
}

/// Gives the children of `process`, which ends, to the nearest living subreaper above it, or to process 1. Calls `told` with
/// each child and its new parent.
pub fn orphan_children(process: &Process, mut told: impl FnMut(&Arc<Process>, &Arc<Process>)) {
    let mut heir = None;
    while let Some((child, parent)) = orphan(process, heir.take()) {
        told(&child, &parent);
        heir = Some(parent);
    }
}

/// Gives the oldest child of `process` to its heir; both. The heir is looked for once, unless it ends meanwhile.
fn orphan(process: &Process, known: Option<Arc<Process>>) -> Option<(Arc<Process>, Arc<Process>)> {
    let mut tree = TREE.lock();
    let child = tree.children(process.pid()).next()?.clone();
    let parent = match known.filter(|known| !known.is_exiting()) {
        Some(known) => known,
        None => tree.process(tree.heir(process))?.clone(),
    };
    let heir = parent.pid();
    let younger = tree.entry(child.pid())?.younger;
    // It is the oldest.
    tree.disown(process.pid(), 0, younger);
    tree.adopt(heir, child.pid());
    child.parent.store(heir, Relaxed);
    // What the old parent chose is not the new one's to bear.
    child.exit_signal.store(SIGCHLD, Relaxed);
    Some((child, parent))
}

/// The first process for which `wanted` holds.
pub fn find(wanted: impl Fn(&Process) -> bool) -> Option<Arc<Process>> {
    TREE.lock()
        .processes()
        .find(|process| wanted(process))
        .cloned()
}

/// Whether `wanted` holds for any process and its parent.
pub fn any_with_parent(wanted: impl Fn(&Process, &Process) -> bool) -> bool {
    let tree = TREE.lock();
    tree.processes().any(|process| {
        tree.process(process.parent())
            .is_some_and(|parent| wanted(process, parent))
    })
}
