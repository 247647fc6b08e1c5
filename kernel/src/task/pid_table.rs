//! All threads and processes by number, and the children of processes.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::credentials::Credentials;
use super::sched::cond_resched;
use super::signal_groups::Fork;
use super::{Process, Thread};
use crate::errno::{Errno, Result};
use crate::mm::heap::check_room;
use crate::sync::Mutex;
use linux_raw_sys::general::SIGCHLD;
use radix::Idr;

/// The initial limit of new numbers, which is Linux's default.
pub const PID_MAX: i32 = 32768;
/// The limit of new numbers (`/proc/sys/kernel/pid_max`).
static LIMIT: AtomicI32 = AtomicI32::new(PID_MAX);
/// The number from which the search continues after the last one.
const FIRST_AGAIN: i32 = 300;
/// The number of candidates that are tried while others wait for the tree.
const LOOKS: usize = 64;

/// A number in its present use: later it may belong to another thread or process (Linux's `struct
/// pid`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pid {
    number: i32,
    serial: NonZeroU64,
}

/// The uses of a number, which is in use as long as there is any.
struct Entry {
    /// The serial number of this use, unique over all numbers.
    serial: NonZeroU64,
    thread: Option<Arc<Thread>>,
    process: Option<Arc<Process>>,
    /// The lists that belong to this number.
    lists: [Ends; KINDS],
    /// The position of its process in another number's list of each kind.
    places: [Sides; KINDS],
    /// The number of processes in the session with this number.
    session: u32,
}

/// The number of threads ever created.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The number of threads ever created.
pub fn made() -> u64 {
    MADE.load(Relaxed)
}

impl Entry {
    fn new() -> Self {
        Entry {
            serial: NonZeroU64::MIN.saturating_add(MADE.fetch_add(1, Relaxed)),
            thread: None,
            process: None,
            lists: Default::default(),
            places: Default::default(),
            session: 0,
        }
    }
}

impl Entry {
    /// Whether a process is in one of its lists, or in its session.
    fn names_any(&self) -> bool {
        self.session != 0 || self.lists.iter().any(|list| list.oldest != 0)
    }

    fn is_used(&self) -> bool {
        self.thread.is_some() || self.process.is_some() || self.names_any()
    }

    fn process_of(&self) -> Option<&Arc<Process>> {
        let of_thread = || self.thread.as_ref().map(|thread| thread.process());
        self.process.as_ref().or_else(of_thread)
    }

    /// The process, and the credentials of the thread or of the ended process.
    fn with_credentials(&self) -> Option<(Arc<Process>, Arc<Credentials>)> {
        let process = self.process_of()?;
        let thread = self.thread.as_ref().map(|thread| thread.credentials());
        let credentials = thread.unwrap_or_else(|| process.credentials());
        Some((process.clone(), credentials))
    }
}

/// The oldest and the youngest member of a list; 0 for none.
#[derive(Clone, Copy, Default)]
struct Ends {
    oldest: i32,
    youngest: i32,
}

/// The next older and younger members in a list; 0 for none.
#[derive(Clone, Copy, Default)]
struct Sides {
    older: i32,
    younger: i32,
}

/// The lists of processes that a number has.
#[derive(Clone, Copy)]
enum Kind {
    /// The children of the process with that number.
    Children,
    /// The members of the process group.
    Group,
}

const KINDS: usize = 2;

impl Kind {
    /// The number in whose list of this kind `process` is.
    fn above(self, process: &Process) -> i32 {
        match self {
            Kind::Children => process.parent(),
            Kind::Group => process.group(),
        }
    }
}

/// The limit of new numbers.
pub fn pid_max() -> i32 {
    LIMIT.load(Relaxed)
}

/// Changes the limit.
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
    entries: Idr<Entry>,
    processes: usize,
    last: i32,
}

static TREE: Mutex<Tree> = Mutex::new(Tree {
    entries: Idr::new(),
    processes: 0,
    last: 0,
});

impl Tree {
    fn get(&self, number: i32) -> Option<&Entry> {
        self.entries.get(number as usize)
    }

    fn entry(&mut self, number: i32) -> Option<&mut Entry> {
        self.entries.get_mut(number as usize)
    }

    /// Enters a number that is not in use yet.
    ///
    /// # Errors
    /// ENOMEM.
    fn insert(&mut self, number: i32) -> Result<()> {
        let inserted = self.entries.insert(number as usize, Entry::new());
        inserted.map(drop).map_err(|_| Errno::ENOMEM)
    }

    fn is_thread(&self, tid: i32, process: &Process) -> bool {
        let thread = self.get(tid).and_then(|entry| entry.thread.as_ref());
        thread.is_some_and(|thread| core::ptr::eq(&**thread.process(), process))
    }

    fn process(&self, pid: i32) -> Option<&Arc<Process>> {
        self.get(pid)?.process.as_ref()
    }

    fn any_of_group_with_parent(
        &self,
        group: i32,
        wanted: impl Fn(&Process, &Process) -> bool,
    ) -> bool {
        self.list(Kind::Group, group).any(|process| {
            let parent = self.process(process.parent());
            parent.is_some_and(|parent| wanted(process, parent))
        })
    }

    /// Gives the oldest child of `process` to its heir; returns both. The heir is searched for
    /// once, unless it ends meanwhile.
    fn orphan(
        &mut self,
        process: &Process,
        known: Option<&Arc<Process>>,
    ) -> Option<(Arc<Process>, Arc<Process>)> {
        let child = self.list(Kind::Children, process.pid()).next()?.clone();
        let parent = match known.filter(|known| !known.is_exiting()) {
            Some(known) => known.clone(),
            None => self.process(self.find_reaper(process))?.clone(),
        };
        let heir = parent.pid();
        self.leave(Kind::Children, &child);
        child.parent.store(heir, Relaxed);
        child.parent_tid.store(heir, Relaxed);
        self.enter(Kind::Children, &child);
        // The new parent gets SIGCHLD, whichever signal the old parent chose.
        child.exit_signal.store(SIGCHLD, Relaxed);
        Some((child, parent))
    }

    /// Makes `process`, which ends, leave its group atomically: if several members end together,
    /// exactly one of them leaves the group without a `guarded` member.
    fn leave_group(&self, process: &Process, guarded: impl Fn(&Process, &Process) -> bool) -> Left {
        let parent = self.process(process.parent());
        let was_guarded = parent.is_some_and(|parent| guarded(process, parent));
        process.set_left_group();
        let group = process.group();
        if was_guarded && !self.any_of_group_with_parent(group, guarded) {
            return Left::Orphaned(group);
        }
        process.set_zombie();
        Left::Zombie(parent.cloned())
    }

    fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.entries
            .values()
            .filter_map(|entry| entry.process.as_ref())
    }

    /// Takes a free one of the next few numbers, if there is any.
    ///
    /// # Errors
    /// ENOMEM.
    fn allocate(&mut self, limit: i32) -> Result<Option<i32>> {
        for _ in 0..LOOKS {
            self.last = match self.last + 1 {
                next if next < limit => next,
                _ => FIRST_AGAIN,
            };
            if self.get(self.last).is_none() {
                self.insert(self.last)?;
                return Ok(Some(self.last));
            }
        }
        Ok(None)
    }

    /// Removes the entry if its number has no use any more.
    fn free(&mut self, number: i32) {
        if self.get(number).is_some_and(|entry| !entry.is_used()) {
            self.entries.remove(number as usize);
        }
    }
}

/// Lists of children and groups. They are linked through the entries, so that moving a
/// process between them cannot fail.
impl Tree {
    /// Makes `process` the youngest in the list of the number that it refers to; returns its
    /// position there, for its entry.
    fn append(&mut self, kind: Kind, process: &Process) -> Sides {
        let number = process.pid();
        let Some(above) = self.entry(kind.above(process)) else {
            return Sides::default();
        };
        let list = &mut above.lists[kind as usize];
        let older = core::mem::replace(&mut list.youngest, number);
        if older == 0 {
            list.oldest = number;
        } else if let Some(older) = self.entry(older) {
            older.places[kind as usize].younger = number;
        }
        Sides { older, younger: 0 }
    }

    /// Appends `process` to its list, and stores its position in its entry.
    fn enter(&mut self, kind: Kind, process: &Process) {
        let place = self.append(kind, process);
        if let Some(entry) = self.entry(process.pid()) {
            entry.places[kind as usize] = place;
        }
    }

    /// Removes `process` from the list of the number that it refers to.
    fn leave(&mut self, kind: Kind, process: &Process) {
        let entry = self.entry(process.pid());
        if let Some(place) = entry.map(|entry| core::mem::take(&mut entry.places[kind as usize])) {
            self.unlink(kind, process, place);
        }
    }

    /// Removes `process` from that list, in which its position was `place`; returns whether the
    /// list is empty now.
    fn unlink(&mut self, kind: Kind, process: &Process, place: Sides) -> bool {
        let Sides { older, younger } = place;
        if (older == 0 || younger == 0)
            && let Some(above) = self.entry(kind.above(process))
        {
            let list = &mut above.lists[kind as usize];
            if older == 0 {
                list.oldest = younger;
            }
            if younger == 0 {
                list.youngest = older;
            }
        }
        if older != 0
            && let Some(older) = self.entry(older)
        {
            older.places[kind as usize].younger = younger;
        }
        if younger != 0
            && let Some(younger) = self.entry(younger)
        {
            younger.places[kind as usize].older = older;
        }
        older == 0 && younger == 0
    }

    /// The list of `above`, the oldest first.
    fn list(&self, kind: Kind, above: i32) -> impl Iterator<Item = &Arc<Process>> {
        let list = self.get(above);
        let mut next = list.map_or(0, |entry| entry.lists[kind as usize].oldest);
        core::iter::from_fn(move || {
            if next == 0 {
                return None;
            }
            let entry = self.get(next)?;
            next = entry.places[kind as usize].younger;
            Some(entry.process.as_ref())
        })
        .flatten()
    }

    fn enter_session(&mut self, session: i32) {
        if let Some(entry) = self.entry(session) {
            entry.session += 1;
        }
    }

    /// Makes a process leave its session, whose number is freed with the last one.
    fn leave_session(&mut self, session: i32) {
        if let Some(entry) = self.entry(session) {
            entry.session -= 1;
            if !entry.is_used() {
                self.entries.remove(session as usize);
            }
        }
    }

    /// Enters a new process by its number and in its lists.
    fn add(&mut self, process: Arc<Process>) {
        let places = [Kind::Children, Kind::Group].map(|kind| self.append(kind, &process));
        self.enter_session(process.session());
        if let Some(entry) = self.entry(process.pid()) {
            entry.places = places;
            entry.process = Some(process);
            self.processes += 1;
        }
    }

    /// The nearest living subreaper above a process, or process 1.
    fn find_reaper(&self, process: &Process) -> i32 {
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
/// EAGAIN: all are in use; ENOMEM.
pub fn allocate() -> Result<i32> {
    _ = check_room()?;
    let limit = pid_max();
    for _ in (0..limit).step_by(LOOKS) {
        if let Some(number) = TREE.lock().allocate(limit)? {
            return Ok(number);
        }
        super::sched::cond_resched();
    }
    Err(Errno::EAGAIN)
}

/// Takes the requested number.
///
/// # Errors
/// EEXIST: it is in use; ENOMEM.
pub fn allocate_as(number: i32) -> Result<i32> {
    _ = check_room()?;
    let mut tree = TREE.lock();
    if tree.get(number).is_some() {
        return Err(Errno::EEXIST);
    }
    tree.insert(number).map(|()| number)
}

/// Frees a number that has no use any more.
pub fn release(number: i32) {
    TREE.lock().entries.remove(number as usize);
}

/// The last number that was allocated.
pub fn last() -> i32 {
    TREE.lock().last
}

/// Enters a new thread by its number.
pub fn add_thread(thread: Arc<Thread>) {
    let mut tree = TREE.lock();
    if let Some(entry) = tree.entry(thread.tid()) {
        entry.thread = Some(thread);
    }
}

/// Enters a new process by its number, as a child of `maker`, or of its parent if they are
/// `siblings`; in the present group and session of `maker`. It gets the signals to several
/// processes that were sent to `maker` since its `fork` began. Returns false, without entering it,
/// if `maker` must die.
pub fn add_process(process: Arc<Process>, maker: &Thread, siblings: bool, fork: &Fork) -> bool {
    let mut tree = TREE.lock();
    let above = maker.process();
    if maker.must_die() {
        drop(tree);
        return false;
    }
    let signals = fork.signals();
    if signals != 0 {
        process.begin_with(signals);
    }
    if siblings {
        process.parent.store(above.parent(), Relaxed);
    }
    process.group.store(above.group(), Relaxed);
    process.session.store(above.session(), Relaxed);
    tree.add(process);
    true
}

/// Enters the first process.
pub fn add_first(process: Arc<Process>) {
    let mut tree = TREE.lock();
    // No process has the numbers of its group and its session.
    for number in [process.group(), process.session()] {
        if tree.get(number).is_none() {
            tree.insert(number).expect("memory for the first process");
        }
    }
    tree.add(process);
}

/// Removes a thread; its number is freed unless it has another use.
pub fn remove_thread(thread: &Thread) {
    let mut tree = TREE.lock();
    let tid = thread.tid();
    // An exec by another thread may have taken over the number of the first.
    let is_same = |entered: &mut Arc<Thread>| core::ptr::eq(&**entered, thread);
    let Some(entry) = tree.entry(tid) else {
        return;
    };
    let thread = entry.thread.take_if(is_same);
    // Otherwise a fork may have allocated the number anew.
    if thread.is_some() && !entry.is_used() {
        tree.entries.remove(tid as usize);
    }
    drop(tree);
    if let Some(thread) = &thread {
        thread.uncount();
    }
    drop(thread);
}

/// Removes a process after it was waited for.
pub fn remove_process(process: &Process) {
    let mut tree = TREE.lock();
    let pid = process.pid();
    let Some(entry) = tree.entry(pid) else {
        return;
    };
    let gone = (entry.thread.take(), entry.process.take());
    let places = core::mem::take(&mut entry.places);
    // Otherwise its own number stays until the last one leaves its lists.
    if !entry.names_any() {
        tree.entries.remove(pid as usize);
    }
    tree.processes -= usize::from(gone.1.is_some());
    let [child, member] = places;
    tree.unlink(Kind::Children, process, child);
    if tree.unlink(Kind::Group, process, member) {
        tree.free(process.group());
    }
    tree.leave_session(process.session());
    drop(tree);
    process.uncount();
    drop(gone);
}

/// Moves the process to a group, and to a session or within its own, if `allowed` permits it.
/// `allowed` gets the session of the group, if that exists, while no process moves.
///
/// # Errors
/// Those of `allowed`.
pub fn move_to(
    process: &Process,
    group: i32,
    session: Option<i32>,
    allowed: impl FnOnce(Option<i32>) -> Result<()>,
) -> Result<()> {
    let mut tree = TREE.lock();
    let member = tree.list(Kind::Group, group).next();
    allowed(member.map(|member| member.session()))?;
    // Another thread may have reaped it.
    let entered = tree.process(process.pid());
    if !entered.is_some_and(|entered| core::ptr::eq(&**entered, process)) {
        return Ok(());
    }
    tree.leave(Kind::Group, process);
    let left = process.group.swap(group, Relaxed);
    tree.enter(Kind::Group, process);
    if left != group {
        // An entry without a thread or a process holds no references.
        tree.free(left);
    }
    if let Some(session) = session {
        tree.enter_session(session);
        tree.leave_session(process.session.swap(session, Relaxed));
    }
    Ok(())
}

/// The only thread of a process, which had another number, takes the number of the process.
pub fn take_over(thread: &Thread, pid: i32) {
    let mut tree = TREE.lock();
    let old = tree.entry(thread.tid());
    let moved = old.and_then(|entry| entry.thread.take());
    tree.free(thread.tid());
    thread.take_over(pid);
    thread.process().leave_count();
    let leader = tree
        .entry(pid)
        .and_then(|entry| core::mem::replace(&mut entry.thread, moved));
    drop(tree);
    drop(leader);
}

/// The process with number `pid`, alive or a zombie.
pub fn process(pid: i32) -> Option<Arc<Process>> {
    TREE.lock().process(pid).cloned()
}

/// The living thread with number `tid`.
pub fn thread(tid: i32) -> Option<Arc<Thread>> {
    TREE.lock().get(tid)?.thread.clone()
}

/// The process that has the number, or that has a thread with it.
pub fn process_of(id: i32) -> Option<Arc<Process>> {
    TREE.lock().get(id)?.process_of().cloned()
}

/// That process, and the credentials of the thread with the number.
pub fn with_credentials(id: i32) -> Option<(Arc<Process>, Arc<Credentials>)> {
    TREE.lock().get(id)?.with_credentials()
}

/// The credentials of the thread or the ended process with number `tid`.
pub fn credentials(tid: i32) -> Option<Arc<Credentials>> {
    with_credentials(tid).map(|(_, credentials)| credentials)
}

/// A number in its present use.
pub fn pid(number: i32) -> Option<Pid> {
    let tree = TREE.lock();
    let serial = tree.get(number)?.serial;
    Some(Pid { number, serial })
}

impl Pid {
    /// The number, as long as its use is the same; 0 afterwards.
    pub fn number(self) -> i32 {
        if pid(self.number) == Some(self) {
            self.number
        } else {
            0
        }
    }

    /// The living thread that has the number.
    pub fn thread(self) -> Option<Arc<Thread>> {
        self.find(|entry| entry.thread.clone())
    }

    /// The process that has the number, or that has a thread with it, and the credentials of that
    /// thread.
    pub fn with_credentials(self) -> Option<(Arc<Process>, Arc<Credentials>)> {
        self.find(Entry::with_credentials)
    }

    fn find<T>(self, part: impl FnOnce(&Entry) -> Option<T>) -> Option<T> {
        let tree = TREE.lock();
        let entry = tree.get(self.number)?;
        part(entry).filter(|_| entry.serial == self.serial)
    }
}

/// Whether a number is in use, for a thread, a process, a group or a session.
pub fn is_used(number: i32) -> bool {
    TREE.lock().get(number).is_some()
}

/// Whether the thread still has its number.
pub fn is_living(thread: &Thread) -> bool {
    self::thread(thread.tid()).is_some_and(|found| core::ptr::eq(&*found, thread))
}

/// The process with the lowest number from `from` on, for `/proc`.
pub fn next_process(from: i32) -> Option<Arc<Process>> {
    TREE.lock()
        .entries
        .range_from(from as usize)
        .find_map(|(_, entry)| entry.process.clone())
}

/// The number of processes.
pub fn count() -> usize {
    TREE.lock().processes
}

/// Calls `f` with each process for which `wanted` holds, without the tree's lock. May sleep.
///
/// # Errors
/// ENOMEM.
pub fn for_each(wanted: impl Fn(&Process) -> bool, f: impl FnMut(&Arc<Process>)) -> Result<()> {
    let found = {
        let tree = TREE.lock();
        collect(tree.processes().filter(|process| wanted(process)).cloned())?
    };
    each(&found, f);
    Ok(())
}

/// Calls `f` with each process of a group, without the tree's lock. May sleep.
///
/// # Errors
/// ENOMEM.
pub fn for_each_of_group(group: i32, f: impl FnMut(&Arc<Process>)) -> Result<()> {
    let found = collect(TREE.lock().list(Kind::Group, group).cloned())?;
    each(&found, f);
    Ok(())
}

fn each(found: &[Arc<Process>], mut f: impl FnMut(&Arc<Process>)) {
    for process in found {
        f(process);
        cond_resched();
    }
}

/// Several processes to which a signal is sent together.
pub enum Several<'a> {
    /// A process group.
    Group(i32),
    /// All processes for which this holds.
    All(&'a dyn Fn(&Process) -> bool),
}

/// Calls `send`, without the tree's lock, with each process of `whom` for which `may` holds;
/// returns whether there were others. A child that one of them creates meanwhile starts with the
/// signal.
///
/// # Errors
/// ENOMEM.
pub fn send_each(
    whom: Several,
    number: u32,
    may: impl Fn(&Process) -> bool,
    mut send: impl FnMut(&Arc<Process>),
) -> Result<bool> {
    let others = Cell::new(false);
    let may = |process: &&Arc<Process>| {
        let may = may(process);
        others.set(others.get() || !may);
        may
    };
    let unbegun = |process: &Arc<Process>| (process.clone(), 0);
    let found = {
        let tree = TREE.lock();
        let mut found = match whom {
            Several::Group(group) => {
                collect(tree.list(Kind::Group, group).filter(may).map(unbegun))?
            }
            Several::All(wanted) => {
                let all = tree.processes().filter(|process| wanted(process));
                collect(all.filter(may).map(unbegun))?
            }
        };
        for (process, phase) in &mut found {
            *phase = process.several.begin(number);
        }
        found
    };
    for (process, phase) in &found {
        send(process);
        process.several.end(*phase, &process.changed);
    }
    Ok(others.get())
}

fn collect<T>(processes: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for process in processes {
        found.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        found.push(process);
    }
    Ok(found)
}

/// The first result of `select` for the processes of a group, in the order in which they joined.
pub fn find_of_group<T>(group: i32, select: impl FnMut(&Arc<Process>) -> Option<T>) -> Option<T> {
    TREE.lock().list(Kind::Group, group).find_map(select)
}

/// The first result of `select` for a child of `parent`, or for its child `only`. `select` can ask
/// whether a number is that of a living thread of the parent.
pub fn find_child<T>(
    parent: &Process,
    only: Option<i32>,
    mut select: impl FnMut(&Arc<Process>, &dyn Fn(i32) -> bool) -> Option<T>,
) -> Option<T> {
    let tree = TREE.lock();
    let is_thread = |tid| tree.is_thread(tid, parent);
    let mut all = match only {
        Some(_) => None,
        None => Some(tree.list(Kind::Children, parent.pid())),
    };
    let is_child = |process: &&Arc<Process>| process.parent() == parent.pid();
    // The only call of `select`, so that it is inlined.
    loop {
        let child = match (&mut all, only) {
            (Some(all), _) => all.next()?,
            (None, only) => tree.process(only?).filter(is_child)?,
        };
        let found = select(child, &is_thread);
        if found.is_some() || all.is_none() {
            return found;
        }
    }
}

/// The result of leaving the family.
pub enum Left {
    /// The process is a zombie, of which its parent is to be notified.
    Zombie(Option<Arc<Process>>),
    /// The process's group has no guarded member any more. The process is no zombie yet.
    Orphaned(i32),
}

/// Gives the children of `process`, which ends, to the nearest living subreaper above it, or to
/// process 1. Calls `notify` with each child and its new parent. Then it makes `process` leave its
/// group; `guarded` tells whether a parent guards a member.
pub fn leave_family(
    process: &Process,
    guarded: impl Fn(&Process, &Process) -> bool,
    mut notify: impl FnMut(&Arc<Process>, &Arc<Process>),
) -> Left {
    let mut heir = None;
    loop {
        let mut tree = TREE.lock();
        let Some((child, parent)) = tree.orphan(process, heir.as_ref()) else {
            return tree.leave_group(process, guarded);
        };
        drop(tree);
        notify(&child, &parent);
        heir = Some(parent);
        cond_resched();
    }
}

/// Whether `wanted` holds for any process of a group and its parent.
pub fn any_of_group_with_parent(group: i32, wanted: impl Fn(&Process, &Process) -> bool) -> bool {
    TREE.lock().any_of_group_with_parent(group, wanted)
}
