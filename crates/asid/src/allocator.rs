//! Generations of identifiers.

use atomics::{AtomicU64, Ordering::*, array, const_fn, fence};

use crate::{Active, Context, ContextId, GENERATION, SHARED};

/// The number of words in the bitmap of identifiers, which have at most 16 bits; or at most 6 in
/// models, which have small stacks.
const WORDS: usize = if cfg!(loom) { 1 } else { (1 << 16) / 64 };

/// The hardware that the identifiers are for.
pub trait Hardware {
    /// The base-2 logarithm of the number of identifiers, at most 16. It does not change once a
    /// space has run.
    fn id_bits(&self) -> u32;

    /// Flushes all translations from this CPU's TLB.
    fn flush_local_all(&self);
}

/// A lock around a `T`: that of the kernel, or of a model checker.
pub trait Lock<T> {
    /// Runs `f` with exclusive access.
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

/// Assigns identifiers to the spaces that `CPUS` CPUs run.
#[derive(Debug)]
pub struct Allocator<L, const CPUS: usize> {
    generation: AtomicU64,
    active: [Active; CPUS],
    tables: L,
}

/// The identifiers in use. The allocator's lock protects them.
#[derive(Debug)]
pub struct Tables<const CPUS: usize> {
    used: [u64; WORDS],
    next: usize,
    /// The contexts that CPUs kept across the last rollover.
    reserved: [u64; CPUS],
    /// CPUs that must flush their TLB before they run another space.
    flush_pending: [bool; CPUS],
}

impl<const CPUS: usize> Tables<CPUS> {
    /// All identifiers are free.
    pub const fn new() -> Self {
        Tables {
            used: [0; WORDS],
            next: 1,
            reserved: [0; CPUS],
            flush_pending: [false; CPUS],
        }
    }

    fn claim(&mut self, id: u16) -> bool {
        let (word, bit) = (&mut self.used[usize::from(id) / 64], 1 << (id % 64));
        let free = *word & bit == 0;
        *word |= bit;
        free
    }

    /// Takes the next free identifier of `count`; [`SHARED`] is never returned.
    fn find(&mut self, count: usize) -> Option<u16> {
        while self.next < count {
            let id = self.next as u16;
            self.next += 1;
            if self.claim(id) {
                return Some(id);
            }
        }
        None
    }
}

impl<const CPUS: usize> Default for Tables<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L, const CPUS: usize> Allocator<L, CPUS> {
    const_fn! {
        /// An allocator for which no space runs. `tables` is the lock around new [`Tables`].
        pub fn new(tables: L) -> Self {
            Allocator {
                generation: AtomicU64::new(GENERATION),
                active: array!(Active::new()),
                tables,
            }
        }
    }

    /// The context of the space with `id`, if this CPU, `cpu`, has already announced it: a rollover
    /// that begins now finds it there and keeps it. Then nothing needs to be switched.
    #[inline]
    pub fn stays(&self, id: &ContextId, cpu: usize) -> Option<Context> {
        let context = Context(id.0.load(Relaxed));
        let announced = self.active[cpu].announced.load(Relaxed);
        (announced == context.0 && context.id() != SHARED).then_some(context)
    }

    /// The context that CPU `cpu` runs.
    #[inline]
    pub fn active(&self, cpu: usize) -> &Active {
        &self.active[cpu]
    }
}

impl<L: Lock<Tables<CPUS>>, const CPUS: usize> Allocator<L, CPUS> {
    /// Called when this CPU, `cpu`, is about to run the space with `id`. Returns the context to
    /// load, which stays valid until [`leave`](Self::leave) or the CPU's next switch. This ends
    /// with a full fence, so that a later change of the space's entries sees that the CPU runs it.
    ///
    /// If the identifier is [`SHARED`], the caller flushes the TLB after it has loaded the tables.
    #[inline]
    pub fn switch(&self, id: &ContextId, cpu: usize, hardware: &impl Hardware) -> Context {
        let here = &self.active[cpu];
        let context = Context(id.0.load(Relaxed));
        let announced = here.announced.load(Relaxed);
        let current = context.generation() == self.generation.load(Acquire);
        // A rollover exchanges the same word: either this finds the 0 that it wrote, or it finds
        // this context and reserves it.
        let switched = announced != 0
            && current
            && here
                .announced
                .compare_exchange(announced, context.0, AcqRel, Relaxed)
                .is_ok();
        let context = if switched {
            context
        } else {
            self.allocate(id, cpu, hardware)
        };
        fence(SeqCst);
        context
    }

    /// Called after this CPU, `cpu`, has changed its tables to those of `context`.
    #[inline]
    pub fn switched(&self, cpu: usize, context: Context) {
        self.active[cpu].loaded.store(context.0, Release);
    }

    /// Called when this CPU, `cpu`, is about to run no space. Call [`switched`](Self::switched)
    /// with [`Context::NONE`] afterwards.
    pub fn leave(&self, cpu: usize) {
        let announced = &self.active[cpu].announced;
        // A 0 is kept: the CPU's next switch must see the rollover.
        _ = announced.fetch_update(AcqRel, Relaxed, |context| {
            (context != 0).then_some(Context::NONE.0)
        });
    }

    #[cold]
    fn allocate(&self, id: &ContextId, cpu: usize, hardware: &impl Hardware) -> Context {
        self.tables.with(|tables| {
            let mut context = Context(id.0.load(Relaxed));
            if context.generation() != self.generation.load(Relaxed) {
                context = self.assign(tables, context, 1 << hardware.id_bits());
                id.0.store(context.0, Release);
            }
            if core::mem::take(&mut tables.flush_pending[cpu]) {
                hardware.flush_local_all();
            }
            self.active[cpu].announced.store(context.0, Relaxed);
            context
        })
    }

    /// A context of the current or of a new generation, for a space that had `old`.
    fn assign(&self, tables: &mut Tables<CPUS>, old: Context, count: usize) -> Context {
        let generation = self.generation.load(Relaxed);
        // Each CPU may keep one across a rollover, and one more must be free then.
        if count <= CPUS + 1 {
            return Context(generation | u64::from(SHARED));
        }
        if old.0 != 0 {
            let renewed = Context(generation | u64::from(old.id()));
            let mut reserved = false;
            // Several CPUs may have run it.
            for kept in tables.reserved.iter_mut().filter(|kept| **kept == old.0) {
                *kept = renewed.0;
                reserved = true;
            }
            if reserved || tables.claim(old.id()) {
                return renewed;
            }
        }
        let id = tables.find(count).unwrap_or_else(|| {
            self.roll_over(tables);
            tables.find(count).expect("more identifiers than CPUs")
        });
        Context(self.generation.load(Relaxed) | u64::from(id))
    }

    /// Starts a generation in which only the identifiers that CPUs now run are in use.
    fn roll_over(&self, tables: &mut Tables<CPUS>) {
        let generation = self.generation.load(Relaxed) + GENERATION;
        self.generation.store(generation, Release);
        tables.used.fill(0);
        tables.next = 1;
        for (cpu, active) in self.active.iter().enumerate() {
            match Context(active.announced.swap(0, AcqRel)) {
                // The CPU has not switched since the last rollover, and keeps the context that it
                // kept then.
                Context(0) => {}
                Context::NONE => tables.reserved[cpu] = 0,
                context => tables.reserved[cpu] = context.0,
            }
            let reserved = Context(tables.reserved[cpu]);
            tables.claim(reserved.id());
            tables.flush_pending[cpu] = true;
        }
    }
}
