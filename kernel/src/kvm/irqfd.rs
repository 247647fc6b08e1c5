//! Interrupts by eventfds (KVM_IRQFD): a write to the eventfd raises an interrupt of the guest,
//! without its VMM.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use super::uapi::{self, Irqfd as Request};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::eventfd::{self, EventFd};
use crate::fs::poll::{Watch, Watcher};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, Once};
use crate::task::current;
use crate::task::sched::cond_resched;
use crate::task::work_queue::{self, Link, Work};

/// An assignment.
struct Irqfd {
    machine: Arc<Machine>,
    trigger: Arc<EventFd>,
    /// The file of the eventfd. The assignment ends once it is closed, even if others still signal
    /// the eventfd.
    file: Weak<File>,
    gsi: u32,
    /// For a level interrupt: signalled when the guest has ended the interrupt and its line was
    /// lowered.
    resample: Option<Arc<EventFd>>,
    listens: Mutex<Listens>,
}

/// Whether an assignment listens to its trigger.
enum Listens {
    /// Not yet.
    No,
    /// It listens as long as this exists, which in turn holds a reference to the assignment.
    By(#[allow(dead_code, reason = "it ends with this")] Watch),
    /// No longer.
    Ended,
}

/// The assignments of a machine.
#[derive(Default)]
pub struct Irqfds {
    table: Mutex<Table>,
    /// Set once there is an assignment with resampling.
    later: Once<Arc<Later>>,
}

/// The maximum number of resampled assignments of a shared interrupt that are signalled at once
/// when it ends. If there are more, the kernel's worker signals them.
const FEW: usize = 16;

/// Signals many resampled assignments on behalf of virtual CPUs, which do not accept the interrupt
/// again meanwhile.
struct Later {
    machine: Weak<Machine>,
    /// A bit for each shared interrupt that has ended.
    ended: Mutex<[u64; 16]>,
    link: Link,
}

#[derive(Default)]
struct Table {
    /// Ordered by the addresses of their eventfds.
    all: Vec<Arc<Irqfd>>,
    /// The assignments with resampling, ordered by GSI, then by address.
    resampled: Vec<Arc<Irqfd>>,
    /// The index of the assignment that was last checked for a closed eventfd.
    looked: usize,
}

impl Irqfd {
    /// The address of its eventfd.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.trigger).addr()
    }

    fn is_closed(&self) -> bool {
        self.file.strong_count() == 0
    }

    /// The key by which resampled assignments are ordered.
    fn key(&self) -> (u32, usize) {
        (self.gsi, self.address())
    }

    /// Starts to listen, unless the assignment was ended meanwhile.
    fn listen(&self, watch: Watch) {
        let mut listens = self.listens.lock();
        let unused = match *listens {
            Listens::Ended => Listens::By(watch),
            _ => core::mem::replace(&mut *listens, Listens::By(watch)),
        };
        drop(listens);
        drop(unused);
    }

    /// Stops listening. A notification in progress may still hold a reference, possibly in the exit
    /// path of another VM, where nothing of this VM may be freed, so wait for it.
    fn end(mut self: Arc<Self>) {
        let before = core::mem::replace(&mut *self.listens.lock(), Listens::Ended);
        drop(before);
        while Arc::get_mut(&mut self).is_none() {
            core::hint::spin_loop();
        }
    }
}

impl Watcher for Irqfd {
    fn changed(&self) -> bool {
        if self.is_closed() || !self.trigger.drain() {
            return false;
        }
        // A level stays high until it is resampled, or the VMM lowers it.
        self.machine.set_gsi(self.gsi, true);
        true
    }
}

/// Adds or removes an assignment.
///
/// # Errors
/// EINVAL, EAGAIN (there is no controller yet), EBADF, EBUSY (the eventfd is assigned already).
pub fn change(machine: &Arc<Machine>, request: &Request) -> Result<usize> {
    if request.flags & !(uapi::IRQFD_DEASSIGN | uapi::IRQFD_RESAMPLE) != 0 {
        return Err(Errno::EINVAL);
    }
    if request.flags & uapi::IRQFD_DEASSIGN != 0 {
        let trigger = eventfd::of(request.fd)?;
        machine.irqfds.end(|table| {
            let at = table.find(Arc::as_ptr(&trigger).addr()).ok()?;
            let is_meant = table.all[at].gsi == request.gsi;
            is_meant.then(|| table.take(at))
        });
        return Ok(0);
    }
    let complete = machine.vgic().is_some_and(|vgic| vgic.is_complete());
    if !complete {
        return Err(Errno::EAGAIN);
    }
    let file = current().files().get(request.fd)?;
    let trigger: Arc<EventFd> = file.ops_as().ok_or(Errno::EINVAL)?;
    let resample = match request.flags & uapi::IRQFD_RESAMPLE {
        0 => None,
        _ => {
            let later = || Later::new(machine);
            machine.irqfds.later.try_call_once(later)?;
            Some(eventfd::of(request.resample)?)
        }
    };
    let made = try_arc(Irqfd {
        machine: machine.clone(),
        trigger: trigger.clone(),
        file: Arc::downgrade(&file),
        gsi: request.gsi,
        resample,
        listens: Mutex::new(Listens::No),
    })?;
    // Check two assignments for each new one, so that closed eventfds leave no more assignments
    // than about the number of descriptors.
    (0..2).for_each(|_| machine.irqfds.end(Table::take_closed));
    machine.add_irqfd(&made)?;
    match trigger.watch(made.clone()) {
        Ok(watch) => made.listen(watch),
        Err(error) => {
            drop(made);
            let address = Arc::as_ptr(&trigger).addr();
            let take = |table: &mut Table| table.find(address).ok().map(|at| table.take(at));
            machine.irqfds.end(take);
            return Err(error);
        }
    }
    // Values written before the assignment also count.
    made.changed();
    Ok(0)
}

impl Table {
    /// The index of an eventfd's assignment, or where it would be.
    fn find(&self, address: usize) -> core::result::Result<usize, usize> {
        self.all
            .binary_search_by_key(&address, |known| known.address())
    }

    /// The first resampled assignment from a key on.
    fn resampled_from(&self, key: (u32, usize)) -> Option<&Arc<Irqfd>> {
        let at = self.resampled.partition_point(|known| known.key() < key);
        self.resampled.get(at)
    }

    fn is_resampled(&self, gsi: u32) -> bool {
        let first = self.resampled_from((gsi, 0));
        first.is_some_and(|known| known.gsi == gsi)
    }

    /// The number of resampled assignments of a GSI.
    fn count_resampled(&self, gsi: u32) -> usize {
        let first = self.resampled.partition_point(|known| known.gsi < gsi);
        let others = &self.resampled[first..];
        others.partition_point(|known| known.gsi == gsi)
    }

    fn add(&mut self, made: &Arc<Irqfd>) -> Result<()> {
        let Err(at) = self.find(made.address()) else {
            return Err(Errno::EBUSY);
        };
        for list in [&mut self.all, &mut self.resampled] {
            list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        }
        self.all.insert(at, made.clone());
        if made.resample.is_some() {
            let before = |known: &Arc<Irqfd>| known.key() < made.key();
            let at = self.resampled.partition_point(before);
            self.resampled.insert(at, made.clone());
        }
        Ok(())
    }

    fn take(&mut self, at: usize) -> Arc<Irqfd> {
        let gone = self.all.remove(at);
        let key = gone.key();
        if let Ok(at) = self
            .resampled
            .binary_search_by_key(&key, |known| known.key())
        {
            self.resampled.remove(at);
        }
        gone
    }

    /// Checks the next assignment in turn, and takes it out if its eventfd is closed.
    fn take_closed(&mut self) -> Option<Arc<Irqfd>> {
        self.looked = self
            .looked
            .checked_sub(1)
            .unwrap_or(self.all.len().saturating_sub(1));
        let closed = self.all.get(self.looked).is_some_and(|one| one.is_closed());
        closed.then(|| self.take(self.looked))
    }
}

impl Irqfds {
    /// Ends the assignment that `take` takes out.
    fn end(&self, take: impl FnOnce(&mut Table) -> Option<Arc<Irqfd>>) {
        let gone = take(&mut self.table.lock());
        if let Some(gone) = gone {
            gone.end();
        }
    }

    /// The approximate size of the kernel memory that they take, in bytes.
    pub fn held(&self) -> usize {
        self.table.lock().all.len() * 256
    }

    /// Ends all assignments. May sleep.
    pub fn end_all(&self) {
        let Table { all, resampled, .. } = core::mem::take(&mut *self.table.lock());
        for one in resampled {
            drop(one);
            cond_resched();
        }
        for one in all {
            one.end();
            cond_resched();
        }
    }
}

impl Machine {
    fn add_irqfd(&self, made: &Arc<Irqfd>) -> Result<()> {
        let mut table = self.irqfds.table.lock();
        table.add(made)?;
        let shared = self.vgic().and_then(|vgic| vgic.shared());
        if made.resample.is_some()
            && let Some((shared, line)) = shared.zip(self.line_of(made.gsi))
        {
            shared.report_end(line);
        }
        Ok(())
    }

    /// Called after the routes have changed: tells the controller which ends of interrupts now
    /// resample an irqfd.
    pub fn update_resampled(&self) {
        let Some(shared) = self.vgic().and_then(|vgic| vgic.shared()) else {
            return;
        };
        let table = self.irqfds.table.lock();
        shared.report_ends(|line| self.routes.of_line(line).any(|gsi| table.is_resampled(gsi)));
    }

    /// Called when the guest ended a shared interrupt: lowers the lines that are resampled, and
    /// signals their eventfds without a lock held.
    pub fn ended(&self, number: u32) {
        let mut count = 0;
        for gsi in self.routes.of_line(number) {
            let known = self.irqfds.table.lock().count_resampled(gsi);
            if known > 0 {
                self.set_gsi(gsi, false);
            }
            count += known;
        }
        if count > FEW
            && let Some(later) = self.irqfds.later.get()
        {
            later.add(number);
        } else if count > 0 {
            self.signal_resampled(number, || ());
        }
    }

    /// Signals the resampled assignments of a shared interrupt, and calls `pause` after each.
    fn signal_resampled(&self, number: u32, pause: impl Fn()) {
        for gsi in self.routes.of_line(number) {
            let mut key = (gsi, 0);
            loop {
                let next = self.irqfds.table.lock().resampled_from(key).cloned();
                let Some(known) = next.filter(|known| known.gsi == gsi) else {
                    break;
                };
                key.1 = known.address() + 1;
                known.resample.iter().for_each(|resample| resample.signal());
                // Dropping the last reference here would wait for this very notification on the
                // same CPU.
                drop(known);
                pause();
            }
        }
    }
}

impl Later {
    fn new(machine: &Arc<Machine>) -> Result<Arc<Self>> {
        try_arc(Later {
            machine: Arc::downgrade(machine),
            ended: Mutex::new([0; 16]),
            link: Link::default(),
        })
    }

    /// Queues the assignments of a shared interrupt for the worker to signal.
    fn add(self: &Arc<Self>, number: u32) {
        let mut ended = self.ended.lock();
        let waits = ended.iter().any(|bits| *bits != 0);
        ended[number as usize / 64] |= 1 << (number % 64);
        drop(ended);
        if !waits {
            work_queue::queue(self.clone());
        }
    }
}

impl Work for Later {
    fn link(&self) -> &Link {
        &self.link
    }

    fn run(self: Arc<Self>) {
        let ended = core::mem::take(&mut *self.ended.lock());
        let Some(machine) = self.machine.upgrade() else {
            return;
        };
        for number in 0..64 * ended.len() as u32 {
            if ended[number as usize / 64] >> (number % 64) & 1 != 0 {
                machine.signal_resampled(number, cond_resched);
            }
        }
    }
}
